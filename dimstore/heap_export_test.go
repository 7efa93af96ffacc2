package dimstore

// SetChunkSize begins anew with chunks of another size.
func (s *HeapStore) SetChunkSize(size int) {
	s.chunkSize = size
	s.current.Store(newHeapGeneration(s))
}

// Keys is the number of keys with a row or a mark in memory.
func (s *HeapStore) Keys() int {
	g := s.current.Load()
	g.writing.Lock()
	defer g.writing.Unlock()
	return g.hash.live
}
