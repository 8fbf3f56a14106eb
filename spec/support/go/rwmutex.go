// Takes and releases the read/write lock of etcd's own recipe. It reads one command per line,
// "read", "write" or "unlock", and prints "held" or "unlocked" when that is done.
//
//	rwmutex ENDPOINT NAME
package main

import (
	"bufio"
	"fmt"
	"os"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	recipe "go.etcd.io/etcd/client/v3/experimental/recipes"
)

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func main() {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{os.Args[1]}})
	check(err)
	session, err := concurrency.NewSession(client, concurrency.WithTTL(5))
	check(err)
	mutex := recipe.NewRWMutex(session, os.Args[2])
	unlock := mutex.Unlock
	fmt.Println("ready")
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		switch lines.Text() {
		case "read":
			check(mutex.RLock())
			unlock = mutex.RUnlock
			fmt.Println("held")
		case "write":
			check(mutex.Lock())
			unlock = mutex.Unlock
			fmt.Println("held")
		default:
			check(unlock())
			fmt.Println("unlocked")
		}
	}
	check(session.Close())
}
