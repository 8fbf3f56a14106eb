// The program of `make fleets` for etcd's Go client: see ../fleet.lua.
package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

// hold takes a lock, tries again after each failure, and prints when the lock is held and lost.
func hold(endpoints, name string, ttl, i int) {
	for ; ; time.Sleep(100 * time.Millisecond) {
		client, err := clientv3.New(clientv3.Config{
			Endpoints: strings.Split(endpoints, ","),
			Username:  "locker", Password: os.Getenv("FLEET_PASSWORD"),
		})
		var session *concurrency.Session
		if err == nil {
			session, err = concurrency.NewSession(client, concurrency.WithTTL(ttl))
		}
		if err == nil {
			err = concurrency.NewMutex(session, fmt.Sprintf("%s/%d", name, i)).Lock(background)
		}
		if err == nil {
			fmt.Println("held", i)
			<-session.Done()
			fmt.Println("lost", i)
			return
		}
		fmt.Fprintln(os.Stderr, err)
	}
}

// runFleet starts the clients of one process. |args|: endpoints, name, number of clients, TTL.
func runFleet(args []string) {
	count, err := strconv.Atoi(args[2])
	check(err)
	ttl, err := strconv.Atoi(args[3])
	check(err)
	for i := 1; i <= count; i++ {
		go hold(args[0], args[1], ttl, i)
	}
	select {}
}
