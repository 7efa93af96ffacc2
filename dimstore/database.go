package dimstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
	"golang.org/x/sys/unix"
)

const (
	maxMemtable = 16 << 20 // larger ones gain nothing
	minMemtable = 2 << 20
	memtables   = 3 // being written out, besides the one in use
)

// sizes of one database, in bytes.
type sizes struct {
	memtable   int64
	blockCache int64 // 0 without compression
	filter     int64 // of the keys of a first load
}

// sizesFor divides memory. A small disk makes for small memtables too: each is written to a log and to a table. A change and its index entries
// must fit into a transaction, 15 % of a memtable, with the longest keys there are.
func sizesFor(o Options, memory int64, disk uint64) sizes {
	least := int64(minMemtable) * int64(4+len(o.Indexes)) / 4
	s := sizes{memtable: min(max(memory/8, least), max(maxMemtable, least)), filter: memory / 16}
	if part := int64(min(disk/32, maxMemtable)); part > 0 {
		s.memtable = max(min(s.memtable, part), least)
	}
	if o.Compression == "snappy" || o.Compression == "zstd" {
		// Badger panics without a cache for the decompressed blocks.
		s.blockCache = max(memory/8, 8<<20)
	}
	return s
}

// margin is what Badger may write later than it is applied: memtables to tables, and to the next logs.
func (s sizes) margin() uint64 { return uint64(4 * s.memtable) }

// databaseOptions has the settings whose reasons are in the package comment or measured: no compression and no block cache is the fastest
// as long as the page cache holds the data; no conflict detection because there is one writer; checksums are verified by this package.
func databaseOptions(dir string, s sizes, compression string, log badger.Logger) badger.Options {
	o := badger.DefaultOptions(dir)
	o.Logger = log
	o.SyncWrites = false
	o.DetectConflicts = false
	o.MetricsEnabled = false
	o.BypassLockGuard = true // the whole directory is locked, and a Dir opens a dimension once
	o.MemTableSize = s.memtable
	o.NumMemtables = memtables
	o.NumCompactors = 2
	o.BlockCacheSize = s.blockCache
	o.IndexCacheSize = 0
	o.BloomFalsePositive = 0.01
	o.ValueLogFileSize = 1 << 20 // never written to
	o.ValueThreshold = min(1<<20, 15*s.memtable/100)
	o.Compression = options.None
	switch compression {
	case "snappy":
		o.Compression = options.Snappy
	case "zstd":
		o.Compression = options.ZSTD
	}
	return o
}

// badgerLog passes Badger's messages on: what it thinks worth an operator's eye as warnings, the rest for debugging.
type badgerLog struct{ log *slog.Logger }

func (l badgerLog) Errorf(format string, args ...any)   { l.write(slog.LevelWarn, format, args) }
func (l badgerLog) Warningf(format string, args ...any) { l.write(slog.LevelWarn, format, args) }
func (l badgerLog) Infof(format string, args ...any)    { l.write(slog.LevelDebug, format, args) }

// Debugf drops what it is given: several lines per transaction.
func (badgerLog) Debugf(string, ...any) {}

func (l badgerLog) write(level slog.Level, format string, args []any) {
	ctx := context.Background()
	if !l.log.Enabled(ctx, level) {
		return
	}
	text := strings.TrimSpace(fmt.Sprintf(format, args...))
	if text == "" {
		return
	}
	const longest = 2000
	if len(text) > longest {
		text = text[:longest]
	}
	l.log.Log(ctx, level, "badger", "text", text)
}

// environment tells errors of the surroundings from damage: the same files may be fine once there is space, a right, a file handle, memory.
// Badger flattens most errors into text, so the text is looked at too.
func environment(err error) bool {
	if err == nil {
		return false
	}
	text := err.Error()
	for _, errno := range []unix.Errno{
		unix.EMFILE, unix.ENFILE, unix.ENOMEM, unix.ENOSPC, unix.EDQUOT, unix.EACCES, unix.EPERM, unix.EROFS,
		unix.EAGAIN, unix.EBUSY, unix.ETXTBSY, unix.EINTR, unix.ENOLCK, unix.ESTALE, unix.ETIMEDOUT,
	} {
		if errors.Is(err, errno) || strings.Contains(text, errno.Error()) {
			return true
		}
	}
	return errors.Is(err, badger.ErrDBClosed) || strings.Contains(text, badger.ErrDBClosed.Error()) ||
		errors.Is(err, badger.ErrBlockedWrites)
}

// openError says what to do about an error of opening a store.
func openError(what string, err error) error {
	text := err.Error()
	is := func(errnos ...unix.Errno) bool {
		for _, errno := range errnos {
			if errors.Is(err, errno) || strings.Contains(text, errno.Error()) {
				return true
			}
		}
		return false
	}
	switch {
	case errors.Is(err, ErrNoSpace):
		return fmt.Errorf("%s: %w", what, err)
	case is(unix.ENOSPC, unix.EDQUOT):
		return fmt.Errorf("%s: %w: %w: free some space", what, ErrNoSpace, err)
	case is(unix.EACCES, unix.EPERM):
		return fmt.Errorf("%s: %w: %w: give this user the right to read and write all of store.dir", what, ErrUnusable, err)
	case is(unix.EROFS):
		return fmt.Errorf("%s: %w: %w: mount the file system for writing", what, ErrUnusable, err)
	case is(unix.ENOTDIR, unix.EEXIST):
		return fmt.Errorf("%s: %w: %w: something else stands in the place of a folder: move it away", what, ErrUnusable, err)
	case is(unix.EMFILE, unix.ENFILE):
		return fmt.Errorf("%s: %w: raise the limit of open files (ulimit -n)", what, err)
	case is(unix.ENOMEM):
		return fmt.Errorf("%s: %w: give the process more memory, or lower store.memory", what, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// handles makes sure that n files can be opened. Badger keeps every table open, and where it lacks a handle it may end the process.
func handles(n int) error {
	files := make([]*os.File, 0, n)
	var err error
	for range n {
		var f *os.File
		if f, err = os.Open(os.DevNull); err != nil {
			break
		}
		files = append(files, f)
	}
	for _, f := range files {
		err = errors.Join(err, f.Close())
	}
	return err
}
