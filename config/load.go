package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"

	"github.com/go-viper/mapstructure/v2"
	"github.com/knadh/koanf/maps"
	"github.com/knadh/koanf/providers/confmap"
	"github.com/knadh/koanf/v2"
)

// maxFileSize bounds the configuration file; a real one has a few KiB.
const maxFileSize = 1 << 20

// Load reads the file and lays the environment (as from os.Environ) over it. The
// error is an *[InvalidError] with every problem.
func Load(path string, environ []string) (*Config, error) {
	data, err := readFile(path, maxFileSize)
	if err != nil {
		return nil, NewInvalidError([]Problem{{
			Place: path, What: "the configuration can't be read: " + err.Error(), Right: "a readable YAML file",
		}})
	}
	return Parse(path, data, environ)
}

// Parse is [Load] of a file that is in memory. The name stands for it in
// problems.
func Parse(name string, data []byte, environ []string) (*Config, error) {
	return parse(name, data, environ, notBuilt())
}

// parse takes the list of what is not built as a parameter so that the rules for
// such keys are tested before they are needed.
func parse(name string, data []byte, environ []string, unbuilt []unbuiltKey) (*Config, error) {
	l := &loader{
		places:  places{file: name, at: map[string]place{}},
		broken:  map[string]bool{},
		unbuilt: unbuilt,
	}
	root := l.document(data)
	if root == nil {
		return nil, NewInvalidError(l.problems)
	}
	file := l.object(reflect.TypeFor[Config](), root, spot{})
	env := l.environment(environ)
	if l.visited >= maxNodes {
		return nil, NewInvalidError(l.problems) // the rest was not read, nothing can be said about it
	}
	cfg, err := bind(l.defaults(reflect.TypeFor[Config]()), file, env)
	if err != nil {
		return nil, fmt.Errorf("BUG: bind the configuration: %w", err)
	}
	// Required keys may come from either layer, so they are looked for in the end.
	l.required(reflect.TypeFor[Config](), spot{})
	l.check(cfg)
	if err := NewInvalidError(l.problems); err != nil {
		return nil, err
	}
	cfg.places = l.places
	return cfg, nil
}

// bind lays the layers over each other, the last one on top. They hold known keys
// and values of the tree's own types, so an error is a fault of this package.
func bind(layers ...map[string]any) (*Config, error) {
	// The delimiter can't be part of a key, which are all ours: no path is ever split.
	k := koanf.New("\x00")
	for _, layer := range layers {
		if err := k.Load(confmap.Provider(layer, ""), nil); err != nil {
			return nil, err
		}
	}
	cfg := &Config{}
	err := k.UnmarshalWithConf("", cfg, koanf.UnmarshalConf{
		Tag:           "koanf",
		DecoderConfig: &mapstructure.DecoderConfig{ErrorUnused: true},
	})
	return cfg, err
}

// loader is one run of parse.
type loader struct {
	places
	problems []Problem
	// broken has the paths whose value was refused: nothing more is said about them.
	broken  map[string]bool
	unbuilt []unbuiltKey
	// keys are the paths of the schema, made when the first unknown key asks for them.
	keys []string
	// visited counts the nodes, so that nested aliases can't multiply without bound.
	visited int
}

// fail records a problem of the path and takes its value out of later checks.
func (l *loader) fail(path, what, right string) {
	l.broken[path] = true
	l.problems = append(l.problems, l.problem(path, what, right))
}

// ok tells that nothing is wrong so far with the path or what encloses it.
func (l *loader) ok(path string) bool {
	for ; path != ""; path = parent(path) {
		if l.broken[path] {
			return false
		}
	}
	return true
}

// written tells whether a layer sets the path.
func (l *loader) written(path string) bool {
	_, ok := l.at[path]
	return ok
}

// required reports the keys that a section must have and that nobody wrote.
func (l *loader) required(t reflect.Type, at spot) {
	for f := range fields(t) {
		here := at.key(f.name)
		switch {
		case f.typ.Kind() == reflect.Struct && !isValue(f.typ):
			l.required(f.typ, here)
		case f.tag("need") == "yes" && !l.written(here.path) && l.ok(here.path):
			l.fail(here.path, "is required and missing", f.name+": "+f.tag("example"))
		}
	}
}

// defaults is the layer below the file: every key that has a default.
func (l *loader) defaults(t reflect.Type) map[string]any {
	out := map[string]any{}
	for f := range fields(t) {
		if f.typ.Kind() == reflect.Struct && !isValue(f.typ) {
			out[f.name] = l.defaults(f.typ)
			continue
		}
		if text, ok := f.lookup("default"); ok {
			if v, ok := l.scalar(f, scalar{text: text}, spot{path: "BUG: default of " + f.name}); ok {
				out[f.name] = v
			}
		}
	}
	return out
}

// withDefaults fills an element of a list; top-level sections have a layer.
func (l *loader) withDefaults(t reflect.Type, written map[string]any) map[string]any {
	out := l.defaults(t)
	maps.Merge(written, out)
	return out
}

// readFile reads a file of at most most bytes.
func readFile(path string, most int64) ([]byte, error) {
	f, err := openFile(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > most {
		return nil, fmt.Errorf("it has more than %s", Size(most))
	}
	return data, nil
}

// openFile opens what has a content; a folder opens as well, but can't be read.
// The error does not repeat the path.
func openFile(path string) (*os.File, error) {
	info, err := os.Stat(path)
	if err == nil && info.IsDir() {
		return nil, errors.New("it is a folder")
	}
	var f *os.File
	if err == nil {
		f, err = os.Open(path)
	}
	if pathErr, ok := errors.AsType[*os.PathError](err); ok {
		return nil, pathErr.Err
	}
	return f, err
}
