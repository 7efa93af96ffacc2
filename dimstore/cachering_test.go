package dimstore

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestCacheRing holds a cache against a map through random changes, commits and views of any age: what it knows is what the view's commit had, and
// its bookkeeping fits.
func TestCacheRing(t *testing.T) {
	for seed := range uint64(4) {
		rng := rand.New(rand.NewPCG(seed, 3))
		c := newCache(leastShard<<(seed%2), int64(seed/2)*300, new(cacheCounters))
		keys := make([][]byte, 2000)
		history := make([][][]byte, len(keys)) // by key: the value after each commit
		for i := range keys {
			keys[i] = fmt.Appendf([]byte{"ri"[i%2]}, "%d%s", i, bytes.Repeat([]byte("k"), i%50))
			history[i] = [][]byte{nil}
		}
		known := 0
		for range 30_000 {
			switch now := len(history[0]) - 1; rng.IntN(10) {
			case 0: // a commit
				var changed []uint64
				for i := range keys {
					value := history[i][now]
					if rng.IntN(len(keys)) < 3 {
						changed = append(changed, c.hash(keys[i]))
						if value = nil; rng.IntN(3) > 0 {
							value = bytes.Repeat([]byte{byte(rng.IntN(256))}, rng.IntN(300)+1)
						}
					}
					history[i] = append(history[i], value)
				}
				c.removing(changed)
				c.complete()
				if rng.IntN(20) == 0 { // everything of one kind, changed or not
					c.removingKind('i')
					c.complete()
					for i := range keys {
						history[i] = append(history[i], history[i][now+1])
					}
				}
			default:
				at := max(0, now-rng.IntN(3)*rng.IntN(3))
				i := int(float64(len(keys)) * rng.Float64() * rng.Float64())
				want, h, m := history[i][at], c.hash(keys[i]), new(memory)
				value, present, ok := c.shard(h).get(h, keys[i], uint64(at), m)
				if !ok {
					c.shard(h).put(h, keys[i], want, want != nil, uint64(at))
					continue
				}
				known++
				require.Equal(t, want != nil, present)
				require.True(t, bytes.Equal(want, value))
			}
		}
		require.Greater(t, known, 3000)
		for i := range c.shards {
			checkRing(t, &c.shards[i])
		}
	}
}

func checkRing(t *testing.T, s *cacheShard) {
	t.Helper()
	live, slots := 0, 0
	s.each(func(at int, e []byte) {
		live++
		n := int(e[8]) | int(e[9])<<8
		found, _ := s.find(uint32(e[12])|uint32(e[13])<<8|uint32(e[14])<<16|uint32(e[15])<<24, e[cacheHeader:cacheHeader+n])
		require.Equal(t, at, found)
	})
	for _, slot := range s.slots {
		if slot != 0 {
			slots++
		}
	}
	require.Equal(t, s.count, live)
	require.Equal(t, s.count, slots)
	require.LessOrEqual(t, s.count, s.mostKeys)
	require.LessOrEqual(t, len(s.ring), s.most)
	require.LessOrEqual(t, s.used, len(s.ring))
}
