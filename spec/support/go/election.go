// Takes part in an election of Go's client. It reads commands, one per line, and prints a line
// for each when it is done:
// "campaign VALUE" prints "leads", "proclaim VALUE" prints "proclaimed", "resign" prints
// "resigned", "leader" prints "leader VALUE", and "observe" prints "saw VALUE" for each leader.
//
//	election ENDPOINT NAME
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func observe(election *concurrency.Election) {
	for answer := range election.Observe(context.Background()) {
		fmt.Println("saw", string(answer.Kvs[0].Value))
	}
}

func main() {
	ctx := context.Background()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{os.Args[1]}})
	check(err)
	session, err := concurrency.NewSession(client, concurrency.WithTTL(5))
	check(err)
	election := concurrency.NewElection(session, os.Args[2])
	fmt.Println("ready")
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		words := strings.Fields(lines.Text())
		switch words[0] {
		case "campaign":
			check(election.Campaign(ctx, words[1]))
			fmt.Println("leads")
		case "proclaim":
			check(election.Proclaim(ctx, words[1]))
			fmt.Println("proclaimed")
		case "leader":
			answer, err := election.Leader(ctx)
			check(err)
			fmt.Println("leader", string(answer.Kvs[0].Value))
		case "observe":
			go observe(election)
		default:
			check(election.Resign(ctx))
			fmt.Println("resigned")
		}
	}
	check(session.Close())
}
