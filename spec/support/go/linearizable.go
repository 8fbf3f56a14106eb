// Judges with porcupine whether the history of a random walk is linearizable: the locks of each name
// with their tokens, and the counter of each name as a register that only a holder writes.
// spec/stress/record.lua describes the history.
//
//	linearizable FILE
//
// Prints a line for the locks, and one for the counter, of each name. If a history is not
// linearizable, also writes a page that shows it, and exits with status 1, as for a file that is
// empty or cannot be read. A history that is not decided in time counts as linearizable.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"log"
	"math"
	"os"
	"sort"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

const patience = 60 * time.Second

// An entry is a line of the history.
type entry struct {
	Kind, Name, Client, Mode string
	Token                    int64 `json:",string"`
	From                     int64 `json:",string"`
	To                       int64 `json:",string"`
	Ends                     int64 `json:",string"`
	Ended                    int64 `json:",string"`
	N, Value                 int
	Found                    *int
	Unknown, Excused         bool
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func read(path string) []entry {
	file, err := os.Open(path)
	check(err)
	defer file.Close()
	var entries []entry
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		var e entry
		check(json.Unmarshal(lines.Bytes(), &e))
		if !e.Excused {
			entries = append(entries, e)
		}
	}
	check(lines.Err())
	if len(entries) == 0 {
		log.Fatal("the history is empty")
	}
	return entries
}

// ---- locks ----

// A step of a hold: its begin or its end.
type step struct {
	entry
	isEnd bool
}

func (s step) String() string {
	word := map[bool]string{false: "begins", true: "ends"}[s.isEnd]
	return fmt.Sprintf("%s of %s, token %d, %s", s.Mode, s.Client, s.Token, word)
}

// The state of a name: how many holds it has, the largest token of a writer and of a reader so far,
// and the client of the larger one.
type holders struct {
	writers, readers, permits int
	writer, reader            int64
	client                    string
}

// stepLock carries out a step. A hold may begin if no other hold excludes it, and if its token is
// larger than those before. Readers, and permits, may have any order among themselves. After a
// handoff holds of one client share a token.
func stepLock(state, input, _ interface{}) (bool, interface{}) {
	h, s := state.(holders), input.(step)
	count, before := &h.writers, max(h.writer, h.reader)
	isFree := h.writers == 0 && h.readers == 0
	switch s.Mode {
	case "read":
		count, before, isFree = &h.readers, h.writer, h.writers == 0
	case "permit":
		count, before, isFree = &h.permits, math.MinInt64, h.permits < s.N
	}
	if s.isEnd {
		*count--
		return *count >= 0, h
	}
	if !isFree || s.Token < before || s.Token == before && h.client != s.Client {
		return false, h
	}
	*count++
	if s.Token > h.writer && s.Token > h.reader {
		h.client = s.Client
	}
	if s.Mode == "read" {
		h.reader = max(h.reader, s.Token)
	} else if s.Mode != "permit" {
		h.writer = max(h.writer, s.Token)
	}
	return true, h
}

func lockOperations(entries []entry) []porcupine.Operation {
	var operations []porcupine.Operation
	for i, e := range entries {
		operations = append(operations,
			porcupine.Operation{ClientId: i, Input: step{e, false}, Call: e.From, Return: e.To},
			porcupine.Operation{ClientId: i, Input: step{e, true}, Call: e.Ends, Return: e.Ended})
	}
	return operations
}

var locks = porcupine.Model{
	Init:              func() interface{} { return holders{} },
	Step:              stepLock,
	DescribeOperation: func(input, _ interface{}) string { return input.(step).String() },
}

// ---- counters ----

// The state of a counter: its value, and the token under which it was written.
type register struct {
	value int
	token int64
}

// stepCounter returns the states in which an operation may leave a counter. A write whose token is
// smaller than that of an earlier write must not take effect.
func stepCounter(state, input, _ interface{}) []interface{} {
	r, e := state.(register), input.(entry)
	var next []interface{}
	if e.Kind == "read" {
		if r.value == e.Value {
			next = append(next, r)
		}
		return next
	}
	if e.Token >= r.token && (e.Found == nil || *e.Found == r.value) {
		next = append(next, register{e.Value, e.Token})
	}
	if e.Unknown {
		next = append(next, r)
	}
	return next
}

func counterOperations(entries []entry) []porcupine.Operation {
	var operations []porcupine.Operation
	for i, e := range entries {
		if e.Unknown {
			e.To = math.MaxInt64
		}
		operations = append(operations,
			porcupine.Operation{ClientId: i, Input: e, Call: e.From, Return: e.To})
	}
	return operations
}

var counters = (&porcupine.NondeterministicModel{
	Init: func() []interface{} { return []interface{}{register{}} },
	Step: stepCounter,
	DescribeOperation: func(input, _ interface{}) string {
		e := input.(entry)
		return fmt.Sprintf("%s %d of %s, token %d", e.Kind, e.Value, e.Client, e.Token)
	},
}).ToModel()

// ---- the verdict ----

// judge prints the verdict on the operations, and returns false if they are not linearizable.
func judge(what, path string, model porcupine.Model, operations []porcupine.Operation) bool {
	result, info := porcupine.CheckOperationsVerbose(model, operations, patience)
	verdict := map[porcupine.CheckResult]string{
		porcupine.Ok: "linearizable", porcupine.Illegal: "NOT LINEARIZABLE",
		porcupine.Unknown: "not decided in time",
	}[result]
	fmt.Printf("%s: %d operations, %s\n", what, len(operations), verdict)
	if result == porcupine.Illegal {
		page := fmt.Sprintf("%s.%s.html", path, strings.ReplaceAll(what, " ", "_"))
		check(porcupine.VisualizePath(model, info, page))
		fmt.Println("  shown in " + page)
	}
	return result != porcupine.Illegal
}

func main() {
	path := os.Args[1]
	holds, registers := map[string][]entry{}, map[string][]entry{}
	for _, e := range read(path) {
		if e.Kind == "hold" {
			holds[e.Name] = append(holds[e.Name], e)
		} else {
			registers[e.Name] = append(registers[e.Name], e)
		}
	}
	isGood := true
	for _, name := range sorted(holds) {
		isGood = judge("locks of "+name, path, locks, lockOperations(holds[name])) && isGood
	}
	for _, name := range sorted(registers) {
		isGood = judge("counter of "+name, path, counters, counterOperations(registers[name])) && isGood
	}
	if !isGood {
		os.Exit(1)
	}
}

func sorted(lists map[string][]entry) []string {
	var names []string
	for name := range lists {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}
