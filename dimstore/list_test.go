package dimstore

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestList compares lists with sorted slices through random edits, the earlier ones too: an edit must not change the list it began with.
func TestList(t *testing.T) {
	type item struct{ key, value int }
	compare := func(a, b item) int { return cmp.Compare(a.key, b.key) }
	rng := rand.New(rand.NewPCG(1, 1))
	var (
		l     list[item]
		model = map[int]int{}
		lists []list[item]
		wants [][]item
	)
	for round := range 300 {
		seen := map[int]bool{}
		var edits []edit[item]
		most, span := 1+rng.IntN(20), 4000
		if round%20 == 0 {
			most = 3000
		}
		for range most {
			e := edit[item]{item: item{rng.IntN(span), round}, out: rng.IntN(2) == 0 || round%100 > 90}
			if seen[e.item.key] {
				continue
			}
			seen[e.item.key] = true
			edits = append(edits, e)
			if e.out {
				delete(model, e.item.key)
			} else {
				model[e.item.key] = e.item.value
			}
		}
		l = l.edited(compare, edits)
		var want []item
		for key, value := range model {
			want = append(want, item{key, value})
		}
		slices.SortFunc(want, compare)
		lists, wants = append(lists, l), append(wants, want)
	}
	for i, l := range lists {
		require.Equal(t, len(wants[i]), l.length)
		require.True(t, slices.Equal(wants[i], slices.Collect(l.all)))
		backward := slices.Collect(l.backward)
		slices.Reverse(backward)
		require.True(t, slices.Equal(wants[i], backward))
		for key := range 4000 {
			got, ok := l.find(func(it item) int { return cmp.Compare(it.key, key) })
			n, want := slices.BinarySearchFunc(wants[i], item{key: key}, compare)
			require.Equal(t, want, ok)
			require.True(t, !ok || got == wants[i][n])
		}
		for _, chunk := range l.chunks {
			require.NotEmpty(t, chunk)
			require.LessOrEqual(t, len(chunk), listChunk)
		}
		require.LessOrEqual(t, len(l.chunks), 2+8*l.length/listChunk, "chunks are not left nearly empty")
	}
}
