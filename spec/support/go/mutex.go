// Runs COMMAND under the lock NAME of etcd's concurrency.Mutex, TIMES times in a row, each time
// with a new session.
//
//	mutex ENDPOINT NAME TIMES COMMAND [ARG...]
package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func runOnce(client *clientv3.Client, name string, words []string) {
	session, err := concurrency.NewSession(client, concurrency.WithTTL(5))
	check(err)
	mutex := concurrency.NewMutex(session, name)
	check(mutex.Lock(context.Background()))
	command := exec.Command(words[0], words[1:]...)
	command.Stdout, command.Stderr = os.Stdout, os.Stderr
	check(command.Run())
	check(mutex.Unlock(context.Background()))
	check(session.Close())
}

func main() {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{os.Args[1]}})
	check(err)
	times, err := strconv.Atoi(os.Args[3])
	check(err)
	fmt.Println("ready")
	for i := 0; i < times; i++ {
		runOnce(client, os.Args[2], os.Args[4:])
	}
}
