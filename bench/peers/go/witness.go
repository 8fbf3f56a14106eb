package main

import (
	"fmt"
	"os"
	"sync/atomic"
)

// A witness counts how often two owners hold the same lock at once. A flag detects this within one
// process. Between processes, a file detects it: only one process can create the file of a lock.
type witness struct {
	marks  string
	inside []int32
	broken int64
}

func newWitness(marks string, names int) *witness {
	return &witness{marks: marks, inside: make([]int32, names)}
}

func (w *witness) count() int64 {
	return atomic.LoadInt64(&w.broken)
}

func (w *witness) mark(number int) string {
	return fmt.Sprintf("%s/%d", w.marks, number)
}

func (w *witness) create(number int) bool {
	file, err := os.OpenFile(w.mark(number), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0600)
	if err != nil {
		return false
	}
	file.Close()
	return true
}

func (w *witness) enter(number int) {
	alone := atomic.CompareAndSwapInt32(&w.inside[number], 0, 1)
	if !alone || w.marks != "" && !w.create(number) {
		atomic.AddInt64(&w.broken, 1)
	}
}

func (w *witness) leave(number int) {
	if w.marks != "" {
		os.Remove(w.mark(number))
	}
	atomic.StoreInt32(&w.inside[number], 0)
}
