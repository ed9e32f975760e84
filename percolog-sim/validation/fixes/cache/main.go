// A map under a lock for readers, as encoding/json had one of types; and sync.Map, as it has since Go 1.9.
//
// It is started with how many goroutines, how often, and 1 if it is to be mended.
package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
)

type padded struct {
	sum   int64
	alone [120]byte
}

var (
	found  [64]padded
	mended bool
	rounds int

	lock   sync.RWMutex
	byName = map[string]int64{"a": 1, "b": 2, "c": 3}
	cached sync.Map
)

//go:noinline
func work(steps int) int {
	sum := 0
	for step := 0; step < steps; step++ {
		sum += step & 3
	}
	return sum
}

func once(goroutine int) {
	if mended {
		value, _ := cached.Load("b")
		found[goroutine].sum += value.(int64)
		return
	}
	lock.RLock()
	found[goroutine].sum += byName["b"]
	lock.RUnlock()
}

// What is measured.
//
//go:noinline
func repeat(goroutine int) {
	for round := 0; round < rounds; round++ {
		once(goroutine)
		found[goroutine].sum += int64(work(200))
	}
}

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: cache GOROUTINES ROUNDS MENDED")
		os.Exit(2)
	}
	goroutines, _ := strconv.Atoi(os.Args[1])
	rounds, _ = strconv.Atoi(os.Args[2])
	mended = os.Args[3] == "1"
	runtime.GOMAXPROCS(goroutines)
	for name, value := range byName {
		cached.Store(name, value)
	}
	var ready, done sync.WaitGroup
	ready.Add(goroutines)
	done.Add(goroutines)
	for number := 0; number < goroutines; number++ {
		go func(number int) {
			runtime.LockOSThread()
			once(number)
			ready.Done()
			ready.Wait()
			repeat(number)
			done.Done()
		}(number)
	}
	done.Wait()
}
