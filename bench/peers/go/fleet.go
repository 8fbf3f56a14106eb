// The program of `make fleets` for etcd's Go client: see ../fleet.lua.
package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
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

// runFill writes values as root. |args|: endpoints, prefix, number of values, bytes of each.
func runFill(args []string) {
	client, err := clientv3.New(clientv3.Config{
		Endpoints: strings.Split(args[0], ","),
		Username:  "root", Password: os.Getenv("FLEET_PASSWORD"),
	})
	check(err)
	count, err := strconv.Atoi(args[2])
	check(err)
	size, err := strconv.Atoi(args[3])
	check(err)
	value := strings.Repeat("v", size)
	var writers sync.WaitGroup
	for w := 0; w < 16; w++ {
		writers.Add(1)
		go func() {
			defer writers.Done()
			for i := w; i < count; i += 16 {
				put := func() error {
					_, err := client.Put(background, fmt.Sprintf("%s%d", args[1], i), value)
					return err
				}
				for put() != nil { // an election
					time.Sleep(100 * time.Millisecond)
				}
			}
		}()
	}
	writers.Wait()
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
