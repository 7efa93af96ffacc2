package main

import (
	"fmt"
	"math"
)

// Bounds of the parts of store.memory, in bytes.
const (
	minStoreMemory = 8 << 20 // of one dimension: two small memtables and the indexes of a few tables
	// enoughStoreMemory is six memtables of the greatest size that they get; more would only be a cache.
	enoughStoreMemory = 128 << 20

	minFetchBuffer = 1 << 20
	maxFetchBuffer = 64 << 20 // a longer queue of fetched records only makes them older
	minProduceBuf  = 2 << 20
	maxProduceBuf  = 64 << 20

	// runBytes bounds what the lookups of one run derive (softly), factBytes what one fact may become: a prefix with many rows must not take the heap.
	runBytes  = 4 << 20
	factBytes = 64 << 20

	// runtimeMemory is what the process takes beside store.memory: code, stacks, Kafka metadata, garbage between two collections.
	runtimeMemory = 256 << 20
)

// memorySplit is store.memory divided among everything that the service sizes itself. It is done here and nowhere else; the parts never add up to more than
// the whole.
type memorySplit struct {
	Store          int64 // of one dimension on disk: its memtables, indexes and the rows kept ready
	Rows           int64 // of one dimension in memory: all that its rows take
	DimensionFetch int   // of one dimension: records fetched and not yet applied
	FactFetch      int   // facts fetched and not yet looked up
	Produce        int   // output records not yet acknowledged
}

// splitMemory gives everything its least, and of what is left an eighth to the facts' fetch buffer, a sixteenth to the produce buffer and an eighth to the
// fetch buffers of all dimensions together, each up to its bound; the stores share the rest evenly, but beside dimensions in memory those on disk take no more
// than they can use. It is an error when there is less than the least.
func splitMemory(total int64, onDisk, inMemory int) (memorySplit, error) {
	dimensions := onDisk + inMemory
	n := int64(max(dimensions, 1))
	least := n*(minStoreMemory+minFetchBuffer) + minFetchBuffer + minProduceBuf
	spare := total - least
	if spare < 0 {
		return memorySplit{}, fmt.Errorf("too little for %d dimension(s): %s (at least %s)", dimensions, mebibytes(total), mebibytes(least))
	}
	s := memorySplit{
		DimensionFetch: int(min(minFetchBuffer+spare/8/n, maxFetchBuffer)),
		FactFetch:      int(min(minFetchBuffer+spare/8, maxFetchBuffer)),
		Produce:        int(min(minProduceBuf+spare/16, maxProduceBuf)),
	}
	rest := total - n*int64(s.DimensionFetch) - int64(s.FactFetch) - int64(s.Produce)
	s.Store = rest / n
	if inMemory > 0 {
		s.Store = min(s.Store, enoughStoreMemory)
		s.Rows = (rest - int64(onDisk)*s.Store) / int64(inMemory)
	}
	return s, nil
}

// withCache divides what a dimension on disk has between its memtables and the rows that are kept ready (cache_keys): half each, but memtables beyond
// what they can use are cache as well.
func (s memorySplit) withCache() (store, cache int64) {
	store = max(min(s.Store/2, enoughStoreMemory), min(s.Store, minStoreMemory))
	return store, s.Store - store
}

// fetchExpansion is what a byte that is asked for in one fetch takes in memory: two fetches at a time, compressed data unpacked to about twice its size,
// and about half as much again for the records.
const fetchExpansion = 8

// onTheWire is how many bytes one fetch may bring so that a buffer of memory bytes holds what becomes of it.
func onTheWire(memory int) int { return max(memory/fetchExpansion, 512<<10) }

func mebibytes(n int64) string { return fmt.Sprintf("%.4gMiB", float64(n)/(1<<20)) }

// memoryLimit is the soft limit of the Go heap for a store.memory of total bytes.
func memoryLimit(total int64) int64 {
	if total > math.MaxInt64-runtimeMemory {
		return math.MaxInt64
	}
	return total + runtimeMemory
}
