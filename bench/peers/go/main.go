// The entrant Go: locks of clientv3/concurrency or, for the work "put", a put and a delete without
// a lock. bench/README.md describes the messages that an entrant reads and prints.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"runtime"
	"runtime/debug"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

type job struct {
	Work, Endpoint, Prefix, Marks string
	Owners, Names                 int
	Hold                          float64 // seconds
}

// A pair takes a lock, calls work and releases the lock.
type pair func(work func())

var background = context.Background()

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func lockPair(session *concurrency.Session, name string) pair {
	mutex := concurrency.NewMutex(session, name)
	return func(work func()) {
		check(mutex.Lock(background))
		work()
		check(mutex.Unlock(background))
	}
}

func putPair(client *clientv3.Client, key string) pair {
	return func(work func()) {
		_, err := client.Put(background, key, "")
		check(err)
		work()
		_, err = client.Delete(background, key)
		check(err)
	}
}

func newSession(client *clientv3.Client) *concurrency.Session {
	session, err := concurrency.NewSession(client)
	check(err)
	return session
}

// newPairs returns one pair for each owner. Owners of the same session would all hold the same lock
// at once. So if several owners use the same name, each owner has its own session; otherwise all
// owners share a session.
func newPairs(client *clientv3.Client, j job) []pair {
	pairs := make([]pair, j.Owners)
	var session *concurrency.Session
	for i := range pairs {
		name := fmt.Sprintf("%s/%d", j.Prefix, i%j.Names)
		if j.Work == "put" {
			pairs[i] = putPair(client, name)
			continue
		}
		if session == nil || j.Owners > j.Names {
			session = newSession(client)
		}
		pairs[i] = lockPair(session, name)
	}
	return pairs
}

// version returns the name and version of a module of this program.
func version(module string) string {
	info, _ := debug.ReadBuildInfo()
	for _, dep := range info.Deps {
		if dep.Path == module {
			return dep.Path + " " + dep.Version
		}
	}
	return module
}

func main() {
	if os.Args[1] == "fleet" {
		runFleet(os.Args[2:])
	}
	var j job
	check(json.Unmarshal([]byte(os.Args[1]), &j))
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{j.Endpoint}})
	check(err)
	defer client.Close()
	pairs, witness := newPairs(client, j), newWitness(j.Marks, j.Names)
	fmt.Printf("ready %s, %s\n", version("go.etcd.io/etcd/client/v3"), runtime.Version())
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var c command
		check(json.Unmarshal(lines.Bytes(), &c))
		answer, err := json.Marshal(runWindow(j, pairs, witness, c))
		check(err)
		fmt.Println(string(answer))
	}
}
