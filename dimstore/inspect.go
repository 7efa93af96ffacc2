package dimstore

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
	"github.com/dgraph-io/badger/v4/skl"
	"github.com/dgraph-io/badger/v4/table"
)

const (
	damagedMark = "DAMAGED" // written when damage is found while running: why
	cleanMark   = "CLEAN"   // written by Close: size and checksum of MANIFEST
	logExt      = ".mem"
)

// inspection is what the files of a generation say before Badger touches them.
type inspection struct {
	empty      bool   // no MANIFEST and no tables, or an empty one and no logs: nothing was ever acknowledged from here
	maxVersion uint64 // highest transaction in the tables
	tables     int
	logMemory  int64 // what the largest log needs in a memtable
	dropped    int   // logs removed behind a gap
}

// inspect verifies a generation, and removes what is in Badger's way: files that it made and did not fill before a crash, and its value log,
// which holds nothing. The error is ErrDamaged or one of the environment.
func inspect(dir string) (inspection, error) {
	var in inspection
	if why, err := os.ReadFile(filepath.Join(dir, damagedMark)); err == nil {
		return in, fmt.Errorf("%w: found while running: %s", ErrDamaged, strings.TrimSpace(string(why)))
	} else if !errors.Is(err, fs.ErrNotExist) {
		return in, err
	}
	if err := checkClean(dir); err != nil {
		return in, err
	}
	manifest, found, err := readManifest(dir)
	if err != nil {
		return in, err
	}
	logs, tables, err := tidy(dir)
	if err != nil {
		return in, err
	}
	if !found && tables > 0 {
		return in, fmt.Errorf("%w: MANIFEST is missing", ErrDamaged)
	}
	in.tables = len(manifest.Tables)
	in.empty = tables == 0 && len(logs) == 0
	if in.maxVersion, err = verifyTables(dir, manifest); err != nil {
		return in, err
	}
	return in, in.checkLogs(dir, logs)
}

// checkClean compares MANIFEST with what the last clean Close left. The note is removed: from here on MANIFEST changes.
func checkClean(dir string) error {
	path := filepath.Join(dir, cleanMark)
	want, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	got, err := manifestSum(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if got != string(want) {
		return fmt.Errorf("%w: MANIFEST is not as the last stop left it", ErrDamaged)
	}
	if err := os.Remove(path); err != nil {
		return err
	}
	return syncDir(dir)
}

// manifestSum identifies the content of MANIFEST.
func manifestSum(dir string) (string, error) {
	b, err := os.ReadFile(filepath.Join(dir, badger.ManifestFilename))
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d %08x\n", len(b), crc32.Checksum(b, castagnoli)), nil
}

func readManifest(dir string) (m badger.Manifest, found bool, err error) {
	f, err := os.Open(filepath.Join(dir, badger.ManifestFilename))
	if errors.Is(err, fs.ErrNotExist) {
		return m, false, nil
	}
	if err != nil {
		return m, false, err
	}
	defer f.Close()
	m, end, err := badger.ReplayManifestFile(f, 0, badger.Options{})
	if err != nil {
		if environment(err) {
			return m, true, err
		}
		return m, true, fmt.Errorf("%w: MANIFEST: %w", ErrDamaged, err)
	}
	// A crash may leave half a change at the end as well, in a window of microseconds. Loading anew is right in both cases.
	if info, err := f.Stat(); err != nil {
		return m, true, err
	} else if info.Size() != end {
		return m, true, fmt.Errorf("%w: MANIFEST ends in the middle of a change", ErrDamaged)
	}
	return m, true, nil
}

// tidy lists the logs, in order, counts the tables on disk, and removes what Badger trips over.
func tidy(dir string) (logs []string, tables int, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, 0, err
	}
	for _, e := range entries {
		name := e.Name()
		switch filepath.Ext(name) {
		case ".sst":
			tables++
		case logExt:
			info, err := e.Info()
			if err != nil {
				return nil, 0, err
			}
			if _, err := strconv.Atoi(strings.TrimSuffix(name, logExt)); err == nil && info.Size() > 0 {
				logs = append(logs, name)
				continue
			}
			if err := os.Remove(filepath.Join(dir, name)); err != nil {
				return nil, 0, err
			}
		case ".vlog":
			if err := os.Remove(filepath.Join(dir, name)); err != nil {
				return nil, 0, err
			}
		}
	}
	// Badger's statistics of the value log: an unreadable one ends the process.
	if err := os.Remove(filepath.Join(dir, "DISCARD")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, 0, err
	}
	slices.SortFunc(logs, func(a, b string) int { return logNumber(a) - logNumber(b) })
	return logs, tables, nil
}

func logNumber(name string) int {
	n, _ := strconv.Atoi(strings.TrimSuffix(name, logExt))
	return n
}

// verifyTables checks every table that MANIFEST names, two at a time, and returns the highest transaction in them.
func verifyTables(dir string, m badger.Manifest) (uint64, error) {
	type job struct {
		id          uint64
		compression options.CompressionType
	}
	jobs := make(chan job, len(m.Tables))
	for id, t := range m.Tables {
		jobs <- job{id, t.Compression}
	}
	close(jobs)
	var (
		wg         sync.WaitGroup
		maxVersion atomic.Uint64
		failed     = make([]error, 2)
	)
	for i := range failed {
		wg.Go(func() {
			r := bufio.NewReaderSize(nil, 1<<20)
			for j := range jobs {
				version, err := verifyTable(table.NewFilename(j.id, dir), j.compression, r)
				if err != nil {
					failed[i] = err
					return
				}
				for old := maxVersion.Load(); version > old && !maxVersion.CompareAndSwap(old, version); {
					old = maxVersion.Load()
				}
			}
		})
	}
	wg.Wait()
	for _, err := range failed {
		if environment(err) {
			return 0, err
		}
	}
	return maxVersion.Load(), errors.Join(failed...)
}

// checkLogs looks for a gap in the numbers of the transactions, from the tables through the logs. A gap between two logs is what a power loss
// leaves: the logs behind it are removed, and with them the newest transactions, positions included. One before the first log means that
// tables are gone.
func (in *inspection) checkLogs(dir string, logs []string) error {
	last := in.maxVersion
	seen := false
	for i, name := range logs {
		l, err := readLog(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		in.logMemory = max(in.logMemory, l.memory)
		if l.first == 0 {
			continue // no whole transaction; Badger drops it
		}
		if l.first > last+1 {
			if !seen {
				return fmt.Errorf("%w: transactions %d to %d are missing", ErrDamaged, last+1, l.first-1)
			}
			for _, behind := range logs[i:] {
				if err := os.Remove(filepath.Join(dir, behind)); err != nil {
					return err
				}
				in.dropped++
			}
			return syncDir(dir)
		}
		seen = true
		last = max(last, l.last)
	}
	return nil
}

// logContent is what the whole transactions of a log add up to.
type logContent struct {
	first, last uint64 // numbers of the transactions; 0: none
	memory      int64  // in a memtable, at most
}

const (
	logHeader = 20
	metaTxn   = 1 << 6 // the entry belongs to a transaction
	metaFin   = 1 << 7 // the entry ends it
)

// readLog walks a memtable's log as Badger's replay does: up to the first entry that is not whole.
//
//	meta, user meta, uvarint key length, uvarint value length, uvarint expiry, key (with 8 bytes of version), value, CRC-32C
func readLog(path string) (logContent, error) {
	var c logContent
	b, err := os.ReadFile(path)
	if err != nil {
		return c, err
	}
	var memory int64
	for rest := b[min(logHeader, len(b)):]; ; {
		r := reader{b: rest}
		meta := r.byte()
		r.byte()
		keyLen, valueLen := r.uvarint(), r.uvarint()
		r.uvarint()
		if keyLen < 8 || keyLen > 1<<16 || valueLen > uint64(len(b)) {
			return c, nil
		}
		key, value := r.take(int(keyLen)), r.take(int(valueLen))
		sum := r.take(checksumSize)
		size := len(rest) - len(r.b)
		if r.bad || binary.BigEndian.Uint32(sum) != crc32.Checksum(rest[:size-checksumSize], castagnoli) {
			return c, nil
		}
		rest = r.b
		memory += int64(keyLen+valueLen) + int64(skl.MaxNodeSize) + 32
		c.memory = max(c.memory, memory)
		if meta&metaFin == 0 {
			continue
		}
		version := ^binary.BigEndian.Uint64(key[keyLen-8:]) // so that newer ones come first
		if string(value) != strconv.FormatUint(version, 10) {
			return c, nil
		}
		if c.first == 0 {
			c.first = version
		}
		c.last = version
	}
}

// damagedFile says which file is damaged, unless the error is one of the environment.
func damagedFile(path string, err error) error {
	if environment(err) {
		return err
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("%w: %s: %w", ErrDamaged, filepath.Base(path), err)
}
