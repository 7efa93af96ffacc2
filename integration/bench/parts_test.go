package main

import (
	"encoding/json"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRecordsHaveTheSizesPromised(t *testing.T) {
	const rows, n = 1_000_000, 2000
	g := newGenerator(1)
	rowBytes, factBytes := 0, 0
	for i := range n {
		row := g.row(i * (rows / n))
		assert.True(t, json.Valid(row.Value) && json.Valid(row.Key), "%s %s", row.Key, row.Value)
		rowBytes += len(row.Value)
		fact := g.fact(i, rows, g.uniform(rows))
		assert.True(t, json.Valid(fact.Value), "%s", fact.Value)
		factBytes += len(fact.Value)
	}
	assert.InDelta(t, 200, rowBytes/n, 25)
	assert.InDelta(t, 300, factBytes/n, 25)
}

func TestFactsNameCustomersOfOneSite(t *testing.T) {
	const rows = 1013 // not a multiple of the sites
	g := newGenerator(1)
	for name, pick := range map[string]keyPicker{"uniform": g.uniform(rows), "zipf": g.zipf(rows)} {
		seen := map[int]int{}
		for i := range 20_000 {
			var fact struct {
				Site     string `json:"o_site"`
				Customer int    `json:"o_custkey"`
				ShipTo   int    `json:"o_shipto"`
				Payer    int    `json:"o_payer"`
			}
			require.NoError(t, json.Unmarshal(g.fact(i, rows, pick).Value, &fact))
			for _, customer := range []int{fact.Customer, fact.ShipTo, fact.Payer} {
				require.True(t, customer >= 0 && customer < rows, customer)
				require.Equal(t, `"`+fact.Site+`"`, string(appendSite(nil, customer)))
			}
			seen[fact.Customer]++
		}
		most := 0
		for _, times := range seen {
			most = max(most, times)
		}
		assert.Equal(t, name == "zipf", most > 1000, "%s: the most frequent customer of 20000 facts comes %d times", name, most)
	}
}

func TestRateIsTakenBetweenCommits(t *testing.T) {
	// A commit of 1000 facts every 100 ms, seen every 20 ms; the process idles for a second first, and half an interval in the end.
	var samples []sample
	at := time.Unix(0, 0)
	see := func(done int64, busy time.Duration) {
		s := sample{at: at, done: done, cpu: busy, own: busy, memory: 1000 - done/100}
		if busy > 0 {
			s.busy = busy + at.Sub(time.Unix(0, 0))/2 // half a core for others
		}
		samples = append(samples, s)
		at = at.Add(20 * time.Millisecond)
	}
	for range 50 {
		see(0, 0)
	}
	for i := range int64(100) {
		for j := range int64(5) {
			see(1000*(i+1), time.Duration(5*i+j)*10*time.Millisecond)
		}
	}
	see(100_000, 5*time.Second)
	see(100_500, 5*time.Second)
	r := rateOf(samples, 100_500)
	assert.InDelta(t, 10_000, r.FactsPerSecond, 1)
	assert.InDelta(t, 50, r.CPUMicros, 0.1)
	assert.InDelta(t, 50, r.TotalMicros, 0.1)
	assert.InDelta(t, 20_000, r.PerCore, 50)
	assert.InDelta(t, 0.5, r.CoresElsewhere, 0.01)
	assert.EqualValues(t, 1000, r.PeakMemory)
}

func TestShortRunIsTakenWhole(t *testing.T) {
	at := func(ms int) time.Time { return time.UnixMilli(int64(ms)) }
	r := rateOf([]sample{{at: at(0)}, {at: at(900)}, {at: at(1000), done: 500}}, 500)
	assert.InDelta(t, 5000, r.FactsPerSecond, 1)
	assert.Zero(t, rateOf([]sample{{at: at(0), done: 500}}, 500).FactsPerSecond)
}

func TestSpread(t *testing.T) {
	assert.Equal(t, spread{2, 1, 9, []float64{9, 1, 2}}, spreadOf([]float64{9, 1, 2}))
	assert.Equal(t, spread{2.5, 1, 4, []float64{4, 3, 2, 1}}, spreadOf([]float64{4, 3, 2, 1}))
	assert.Equal(t, "1,234,567 (12K..9000K)", thousands(spread{Median: 1_234_567, Min: 12_000, Max: 9_000_000}))
	assert.Equal(t, "12 (0K..0K)", thousands(spread{Median: 12}))
}

func TestProcFiles(t *testing.T) {
	cpu, err := parseStat([]byte("4711 (a) b (c) R 1 2 3 4 5 6 7 8 9 10 150 50 0 0 20 0"))
	require.NoError(t, err)
	assert.Equal(t, 2*time.Second, cpu)
	_, err = parseStat([]byte("4711 (x) R 1"))
	require.Error(t, err)
	rss, err := parseRssAnon([]byte("VmRSS:\t  20 kB\nRssAnon:\t    1024 kB\nRssFile:\t 1 kB\n"))
	require.NoError(t, err)
	assert.EqualValues(t, 1<<20, rss)
	assert.Equal(t, 21*clockTick, parseBusy([]byte("cpu  1 2 3 1000 1000 4 5 6 7 8\ncpu0 1 2\n")))
}

// What is sent at different times arrives late by the same delay, not one after the other.
func TestLateConnectionOverlaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		c := newLateConn(far, 5*time.Millisecond)
		began := time.Now()
		go func() {
			for _, word := range []string{"one", "two"} {
				_, _ = near.Write([]byte(word))
				time.Sleep(time.Millisecond)
			}
			_ = near.Close()
		}()
		word := make([]byte, 3)
		for i, want := range []string{"one", "two"} {
			_, err := io.ReadFull(c, word)
			require.NoError(t, err)
			assert.Equal(t, want, string(word))
			assert.Equal(t, time.Duration(5+i)*time.Millisecond, time.Since(began))
		}
		_, err := c.Read(word)
		require.ErrorIs(t, err, io.EOF)
		assert.Equal(t, 7*time.Millisecond, time.Since(began))
		require.NoError(t, c.Close())
	})
}

func TestLateConnectionClosesWhileItWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer near.Close()
		c := newLateConn(far, time.Hour)
		go func() {
			time.Sleep(time.Second)
			_ = c.Close()
		}()
		_, err := c.Read(make([]byte, 1))
		assert.ErrorIs(t, err, net.ErrClosed)
	})
}

func TestCasesHaveNames(t *testing.T) {
	all := allCases()
	assert.Len(t, all, 16)
	names := map[string]bool{}
	for _, c := range all {
		names[c.name()] = true
	}
	assert.Len(t, names, 16)
	assert.True(t, names["uniform/exactly_once"] && names["three/at_least_once/5ms"])
	c, err := chooseCases("^zipf/")
	require.NoError(t, err)
	assert.Len(t, c.cases, 4)
	assert.False(t, c.load || c.latency)
	c, err = chooseCases("^latency$")
	require.NoError(t, err)
	assert.Equal(t, choice{latency: true}, c)
}
