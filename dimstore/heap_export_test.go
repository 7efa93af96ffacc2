package dimstore

// SetChunkSize begins anew with chunks of another size.
func (s *HeapStore) SetChunkSize(size int) {
	s.chunkSize = size
	s.current.Store(newHeapGeneration(s))
}
