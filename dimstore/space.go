package dimstore

import (
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// diskSpace is what the file system of path has, in bytes.
func diskSpace(path string) (free, total uint64, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return 0, 0, err
	}
	return st.Bavail * uint64(st.Bsize), st.Blocks * uint64(st.Bsize), nil
}

// spaceAge is how long an answer of the file system is used. What is written meanwhile is subtracted.
const spaceAge = 20 * time.Millisecond

// space guards free disk. Safe for concurrent use.
type space struct {
	path   string
	statfs func(path string) (free, total uint64, err error)

	mu   sync.Mutex
	at   time.Time
	free uint64
}

// usageAge is how long the size of the directory is used once it was added up. What is written meanwhile is added.
const usageAge = time.Second

// usage guards the size of everything below a directory. Safe for concurrent use.
type usage struct {
	path string

	mu    sync.Mutex
	at    time.Time
	bytes uint64
}

// take makes sure that size more bytes keep it within limit; 0: there is none.
func (u *usage) take(limit, size uint64) error {
	if limit == 0 {
		return nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if now := time.Now(); u.at.IsZero() || now.Sub(u.at) > usageAge {
		u.bytes, u.at = uint64(diskUsage(u.path)), now
	}
	if u.bytes+size > limit {
		return fmt.Errorf("%w: %s takes %d MiB of the %d MiB that it may: raise store.max_disk, or keep fewer rows", ErrNoSpace, u.path, u.bytes>>20, limit>>20)
	}
	u.bytes += size
	return nil
}

// take makes sure that limit bytes stay free when size more are written.
func (s *space) take(limit, size uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := time.Now(); s.free < limit+size || now.Sub(s.at) > spaceAge {
		free, _, err := s.statfs(s.path)
		if err != nil {
			return fmt.Errorf("free space of %s: %w", s.path, err)
		}
		s.free, s.at = free, now
	}
	if s.free < limit+size {
		return fmt.Errorf("%w: %d MiB free on the file system of %s, %d MiB needed: free some space, or lower store.min_free_disk",
			ErrNoSpace, s.free>>20, s.path, (limit+size)>>20+1)
	}
	s.free -= size
	return nil
}
