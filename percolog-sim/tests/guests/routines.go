// Goroutines on all cores: channels, a mutex, a collection of garbage, and sleeps.
package main

import (
	"fmt"
	"runtime"
	"sync"
	"time"
)

func main() {
	var group sync.WaitGroup
	var mutex sync.Mutex
	shared := 0
	results := make(chan int)
	for part := 0; part < 16; part++ {
		group.Add(1)
		go func(part int) {
			defer group.Done()
			for i := 0; i < 50; i++ {
				mutex.Lock()
				shared++
				mutex.Unlock()
			}
			results <- part
		}(part)
	}
	sum := 0
	for part := 0; part < 16; part++ {
		sum += <-results
	}
	group.Wait()
	runtime.GC()
	before := time.Now()
	time.Sleep(20 * time.Millisecond)
	slept := time.Since(before) >= 20*time.Millisecond
	fmt.Println(runtime.NumCPU(), sum, shared, slept)
}
