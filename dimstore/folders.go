package dimstore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

const (
	damagedFolder   = "damaged"
	removingPrefix  = ".removing-"
	beginningPrefix = ".beginning-"
	// loadingMark is a file in the folder of a generation that is loaded beside the one that answers. Its removal is the step that makes the
	// generation the one to open.
	loadingMark = "LOADING"
)

// folderName makes a file name of a dimension's name, different for different names.
func folderName(name string) string {
	var b strings.Builder
	for i := range len(name) {
		c := name[i]
		plain := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' || c == '.' && i > 0
		if plain {
			b.WriteByte(c)
			continue
		}
		fmt.Fprintf(&b, "%%%02X", c)
	}
	switch out := b.String(); {
	case out == lockFile || out == instanceFile || out == instanceFile+".tmp":
		return fmt.Sprintf("%%%02X%s", out[0], out[1:])
	case len(out) > 200:
		return fmt.Sprintf("%s%%%x", out[:150], shortSum(name))
	default:
		return out
	}
}

func (s *Store) folder(number int) string {
	return filepath.Join(s.root, fmt.Sprintf("%06d", number))
}

// lastGeneration finds the generation to use, 0 for none. It finishes removals, also of earlier generations, and removes those that were not
// published.
func (s *Store) lastGeneration() (int, error) {
	entries, err := os.ReadDir(s.root)
	if err != nil {
		return 0, err
	}
	last := 0
	var remove []int
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), removingPrefix) || strings.HasPrefix(e.Name(), beginningPrefix) {
			if err := os.RemoveAll(filepath.Join(s.root, e.Name())); err != nil {
				return 0, err
			}
			continue
		}
		number, err := strconv.Atoi(e.Name())
		if err != nil || !e.IsDir() || number <= 0 {
			continue
		}
		s.lastNumber = max(s.lastNumber, number)
		loading, err := exists(filepath.Join(s.root, e.Name(), loadingMark))
		switch {
		case err != nil:
			return 0, err
		case loading:
			s.log.Info("a generation that was not finished is removed", "dimension", s.options.Name, "folder", s.folder(number))
			remove = append(remove, number)
		case number < last:
			remove = append(remove, number)
		default:
			if last > 0 {
				remove = append(remove, last)
			}
			last = number
		}
	}
	for _, number := range remove {
		if err := removeGeneration(s.folder(number)); err != nil {
			return 0, err
		}
	}
	return last, nil
}

func exists(path string) (bool, error) {
	_, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// removeGeneration removes a folder so that a crash leaves either all of it or nothing that is ever opened.
func removeGeneration(path string) error {
	root, name := filepath.Split(path)
	gone := filepath.Join(root, removingPrefix+name)
	if err := os.RemoveAll(gone); err != nil {
		return err
	}
	if err := os.Rename(path, gone); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	if err := syncDir(root); err != nil {
		return err
	}
	return os.RemoveAll(gone)
}

// makeFolder makes the folder of the next generation. When it is to be loaded beside another, it is never there without its mark.
func (s *Store) makeFolder(loading bool) (string, error) {
	s.lastNumber++
	path := s.folder(s.lastNumber)
	if !loading {
		return path, os.Mkdir(path, 0o750)
	}
	begin := filepath.Join(s.root, beginningPrefix+filepath.Base(path))
	if err := os.Mkdir(begin, 0o750); err != nil {
		return "", err
	}
	if err := writeFile(filepath.Join(begin, loadingMark), nil); err != nil {
		return "", err
	}
	if err := os.Rename(begin, path); err != nil {
		return "", err
	}
	return path, syncDir(s.root)
}

// moveAside keeps a damaged generation for people to look at, the last one only.
func (s *Store) moveAside(path string, why error) error {
	aside := filepath.Join(s.root, damagedFolder)
	if err := removeGeneration(aside); err != nil {
		return err
	}
	if err := os.Rename(path, aside); err != nil {
		return err
	}
	if err := syncDir(s.root); err != nil {
		return err
	}
	s.discarded = "damaged"
	_ = os.WriteFile(filepath.Join(aside, damagedMark), []byte(why.Error()+"\n"), 0o640) // for people; the log has it too
	s.log.Error("stored rows are damaged; the dimension is loaded anew",
		"dimension", s.options.Name, "moved_to", aside, "error", why)
	return nil
}
