package dimstore

import "slices"

// list is a sorted list that never changes: an edit makes another one, which shares with it all chunks that it leaves alone. So readers keep
// the one they began with, at no cost, and the edits of a transaction cost the chunks they touch, not the length of the list.
type list[T any] struct {
	chunks [][]T // none of them empty
	length int
}

const listChunk = 256 // items

// edit puts an item into a list, in place of the one that compares equal to it, or takes that one out.
type edit[T any] struct {
	item T
	out  bool
}

// find returns the item for which compare, which tells how an item compares with what is looked for, returns 0.
func (l list[T]) find(compare func(item T) int) (item T, ok bool) {
	i, first := slices.BinarySearchFunc(l.chunks, struct{}{}, func(chunk []T, _ struct{}) int { return compare(chunk[0]) })
	if first {
		return l.chunks[i][0], true
	}
	if i == 0 {
		return item, false
	}
	chunk := l.chunks[i-1]
	if j, ok := slices.BinarySearchFunc(chunk, struct{}{}, func(item T, _ struct{}) int { return compare(item) }); ok {
		return chunk[j], true
	}
	return item, false
}

// all yields the items in order.
func (l list[T]) all(yield func(item T) bool) {
	for _, chunk := range l.chunks {
		for _, item := range chunk {
			if !yield(item) {
				return
			}
		}
	}
}

// backward yields the items from the greatest to the least.
func (l list[T]) backward(yield func(item T) bool) {
	for _, chunk := range slices.Backward(l.chunks) {
		for _, item := range slices.Backward(chunk) {
			if !yield(item) {
				return
			}
		}
	}
}

// edited returns the list after edits, one at most per item. It sorts the edits.
func (l list[T]) edited(compare func(a, b T) int, edits []edit[T]) list[T] {
	slices.SortFunc(edits, func(a, b edit[T]) int { return compare(a.item, b.item) })
	out := list[T]{chunks: make([][]T, 0, len(l.chunks)+1)}
	for i := range max(len(l.chunks), 1) {
		here := edits
		if i+1 < len(l.chunks) {
			n, _ := slices.BinarySearchFunc(edits, l.chunks[i+1][0], func(e edit[T], next T) int { return compare(e.item, next) })
			here = edits[:n]
		}
		edits = edits[len(here):]
		var chunk []T
		if len(l.chunks) > 0 {
			chunk = l.chunks[i]
		}
		if len(here) > 0 {
			chunk = merged(chunk, compare, here)
		}
		out.add(chunk)
	}
	return out
}

// merged returns a copy of a chunk after edits.
func merged[T any](chunk []T, compare func(a, b T) int, edits []edit[T]) []T {
	out := make([]T, 0, len(chunk)+len(edits))
	for _, e := range edits {
		n, had := slices.BinarySearchFunc(chunk, e.item, compare)
		out = append(out, chunk[:n]...)
		if had {
			n++
		}
		chunk = chunk[n:]
		if !e.out {
			out = append(out, e.item)
		}
	}
	return append(out, chunk...)
}

// add appends items as chunks of a good size.
func (l *list[T]) add(items []T) {
	l.length += len(items)
	if n := len(l.chunks); n > 0 && len(l.chunks[n-1])+len(items) <= listChunk/2 {
		l.chunks[n-1] = slices.Concat(l.chunks[n-1], items)
		return
	}
	for chunk := range slices.Chunk(items, listChunk) {
		l.chunks = append(l.chunks, slices.Clip(chunk))
	}
}
