package main

import (
	"math"
	"sync"
	"time"
)

// A command starts a window. It has the length of the window in seconds, or the number of holds of
// each owner.
type command struct {
	Seconds float64
	Holds   int
}

type answer struct {
	Pairs   int     `json:"pairs"`
	Seconds float64 `json:"seconds"`
	Broken  int64   `json:"broken"`
}

// A window counts complete pairs; last is the time in seconds when the last one ended.
type window struct {
	from    time.Time
	seconds float64
	holds   int

	sync.Mutex
	pairs int
	last  float64
}

func (w *window) elapsed() float64 {
	return time.Since(w.from).Seconds()
}

func (w *window) isOver() bool {
	return w.elapsed() >= w.seconds
}

// count counts a complete pair. A pair that ended after the deadline does not count.
func (w *window) count() {
	w.Lock()
	defer w.Unlock()
	if at := w.elapsed(); at < w.seconds {
		w.pairs++
		w.last = at
	}
}

// runOwner does w.holds pairs, or fewer if the window is over before. An owner that gets the lock
// when the window is over releases it at once, so that the remaining waiters finish quickly.
func (w *window) runOwner(j job, number int, do pair, witness *witness) {
	work := func() {
		if w.isOver() {
			return
		}
		witness.enter(number)
		if j.Hold > 0 {
			time.Sleep(time.Duration(j.Hold * float64(time.Second)))
		}
		witness.leave(number)
	}
	for done := 0; done < w.holds && !w.isOver(); done++ {
		do(work)
		w.count()
	}
}

func runWindow(j job, pairs []pair, witness *witness, c command) answer {
	w := &window{from: time.Now(), seconds: c.Seconds, holds: c.Holds}
	if w.seconds == 0 {
		w.seconds = math.Inf(1)
	}
	if w.holds == 0 {
		w.holds = math.MaxInt
	}
	var owners sync.WaitGroup
	owners.Add(len(pairs))
	for i, do := range pairs {
		go func(number int, do pair) {
			defer owners.Done()
			w.runOwner(j, number, do, witness)
		}(i%j.Names, do)
	}
	owners.Wait()
	return answer{w.pairs, w.last, witness.count()}
}
