package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

const (
	// maxNodes bounds the nodes that are looked at, aliases expanded.
	maxNodes = 200_000
	// maxMerges bounds how deep merges (`<<: *a`) go; one that contains itself has no end.
	maxMerges = 16
)

var (
	syntaxLine    = regexp.MustCompile(`^line (\d+): `)
	grammarError  = regexp.MustCompile(`^(did not find expected|found undefined tag handle|found duplicate %|found incompatible)`)
	encodingError = regexp.MustCompile(`UTF-8|Unicode character|control characters`)
	unknownAnchor = regexp.MustCompile(`^unknown anchor '(.*)' referenced`)
)

// document parses the file into its root mapping. It gives nil after a problem
// that leaves nothing to walk.
func (l *loader) document(data []byte) *yaml.Node {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc yaml.Node
	err := decodeNode(dec, &doc)
	switch {
	case errors.Is(err, io.EOF), err == nil && isNull(&doc):
		l.problems = append(l.problems, l.problem("", "the file is empty", "a configuration with kafka, input, output and, for lookups, dimensions and lookups"))
		return nil
	case err != nil:
		l.syntax(data, err)
		return nil
	}
	root := follow(doc.Content[0])
	if !isMap(root) {
		l.failLine(root.Line, "the file is "+kindOf(root)+", not a mapping", "kafka: {brokers: [localhost:9092]} and so on")
		return nil
	}
	var next yaml.Node
	switch err := decodeNode(dec, &next); {
	case errors.Is(err, io.EOF):
	case err != nil:
		l.syntax(data, err)
	default:
		l.failLine(next.Line, "a second document begins here", "one document in the file, without ---")
	}
	return root
}

// failLine records a problem of the file as a whole at a line.
func (l *loader) failLine(line int, what, right string) {
	line = max(line, 1)
	l.problems = append(l.problems, Problem{Place: l.render(place{line: line}), Line: line, What: what, Right: right})
}

// decodeNode keeps the parser's panics ("internal error, please report") from
// ending the process: the file is the user's, whatever is in it.
func decodeNode(dec *yaml.Decoder, into *yaml.Node) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("yaml: the parser gave up: %v", r)
		}
	}()
	return dec.Decode(into)
}

func isNull(doc *yaml.Node) bool {
	return len(doc.Content) == 0 || doc.Content[0].Kind == yaml.ScalarNode && doc.Content[0].ShortTag() == "!!null"
}

// syntax records an error of the YAML parser, which stops at the first.
func (l *loader) syntax(data []byte, err error) {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	line, right := 1, ""
	if m := syntaxLine.FindStringSubmatch(text); m != nil {
		line, _ = strconv.Atoi(m[1])
		text = text[len(m[0]):]
		if grammarError.MatchString(text) {
			line = min(line+1, lastLine(data)) // the parser counts these from 0, and the end as a line
		}
	} else if m := unknownAnchor.FindStringSubmatch(text); m != nil {
		line = lineOf(data, bytes.Index(data, []byte("*"+m[1])))
		right = "an anchor &" + m[1] + " before it"
	} else if encodingError.MatchString(text) {
		line = lineOf(data, badByte(data))
		right = "UTF-8 text"
	}
	if lines := bytes.Split(data, []byte("\n")); line <= len(lines) && bytes.HasPrefix(bytes.TrimLeft(lines[line-1], " "), []byte("\t")) {
		right = "spaces, not tabs, for the indentation"
	}
	l.failLine(line, "no valid YAML: "+text, right)
}

// lineOf counts the lines up to an offset; 1 when it is negative.
func lineOf(data []byte, offset int) int {
	return 1 + bytes.Count(data[:max(offset, 0)], []byte("\n"))
}

// lastLine is the number of the last line that has something in it, line breaks
// being those of YAML.
func lastLine(data []byte) int {
	line := 1
	for _, r := range strings.ReplaceAll(strings.TrimRight(string(data), "\r\n"), "\r\n", "\n") {
		if strings.ContainsRune("\r\n\u0085\u2028\u2029", r) {
			line++
		}
	}
	return line
}

// badByte is the offset of the first byte that YAML refuses, -1 when there is none.
func badByte(data []byte) int {
	for i := 0; i < len(data); {
		r, n := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && n <= 1 || unicode.IsControl(r) && !strings.ContainsRune("\t\n\r\u0085", r) {
			return i
		}
		i += n
	}
	return -1
}

// follow gives the node that an alias stands for.
func follow(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode && n.Alias != nil {
		return n.Alias
	}
	return n
}

// pair is one entry of a mapping.
type pair struct {
	key   string
	line  int
	value *yaml.Node
	// own is false for what a merge brought in.
	own bool
}

// pairs gives the entries of a mapping in the order of the file, merges
// (`<<: *anchor`) resolved: what is written beats what is merged, an earlier merge
// beats a later one. Keys that are no strings or come twice are problems of the
// path and left out.
func (l *loader) pairs(n *yaml.Node, path string) []pair {
	return l.mergedPairs(n, path, 0)
}

func (l *loader) mergedPairs(n *yaml.Node, path string, depth int) []pair {
	var out []pair
	own := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := follow(n.Content[i]), follow(n.Content[i+1])
		if !l.visit() {
			return nil
		}
		switch first, twice := own[key.Value]; {
		case isMerge(key):
		case key.Kind != yaml.ScalarNode || key.ShortTag() != "!!str":
			l.failKey(n.Content[i].Line, path, "a key is "+kindOf(key)+", not a string", rightKey(key))
		case twice:
			l.failKey(n.Content[i].Line, join(path, key.Value), "the key is written twice", fmt.Sprintf("once; it is in line %d already", first))
		default:
			own[key.Value] = n.Content[i].Line
			out = append(out, pair{key: key.Value, line: n.Content[i].Line, value: value, own: true})
		}
		if isMerge(key) {
			for _, p := range l.merge(value, path, depth+1, n.Content[i].Line) {
				p.own = false
				out = append(out, p)
			}
		}
	}
	return firstOf(out, own)
}

// firstOf drops the merged entries that are written, or merged before.
func firstOf(pairs []pair, own map[string]int) []pair {
	seen := map[string]bool{}
	out := pairs[:0]
	for _, p := range pairs {
		if _, written := own[p.key]; seen[p.key] || written && !p.own {
			continue
		}
		seen[p.key] = true
		out = append(out, p)
	}
	return out
}

// merge gives the entries that `<<` brings in.
func (l *loader) merge(from *yaml.Node, path string, depth, line int) []pair {
	if depth > maxMerges {
		l.failKey(line, path, "merges are nested too deep", "no merge that contains itself")
		return nil
	}
	switch from.Kind {
	case yaml.MappingNode:
		if !l.visit() {
			return nil
		}
		return l.mergedPairs(from, path, depth)
	case yaml.SequenceNode:
		var out []pair
		for _, item := range from.Content {
			item = follow(item)
			if item.Kind != yaml.MappingNode {
				l.failKey(line, path, "<< merges "+kindOf(item), "<<: *anchor of a mapping")
				return nil
			}
			if !l.visit() {
				return nil
			}
			out = append(out, l.mergedPairs(item, path, depth)...)
		}
		return out
	default:
		l.failKey(line, path, "<< merges "+kindOf(from), "<<: *anchor of a mapping")
		return nil
	}
}

func isMerge(key *yaml.Node) bool { return key.Kind == yaml.ScalarNode && key.ShortTag() == "!!merge" }

// failKey records a problem at a line of its own and not at the place of the path.
func (l *loader) failKey(line int, path, what, right string) {
	l.problems = append(l.problems, Problem{Place: l.render(place{line: line}), Line: line, Path: path, What: what, Right: right})
}

// visit counts a node and tells whether to go on.
func (l *loader) visit() bool {
	l.visited++
	if l.visited == maxNodes {
		l.failLine(1, "the file is too large once its aliases are expanded", "fewer aliases of aliases")
	}
	return l.visited < maxNodes
}

func rightKey(key *yaml.Node) string {
	if key.Kind == yaml.ScalarNode && key.Value != "" {
		return quote(key.Value) + " in quotes"
	}
	return "name: value"
}

// kindOf names what a node is, for messages.
func kindOf(n *yaml.Node) string {
	switch n.ShortTag() {
	case "!!map":
		return "a mapping"
	case "!!seq":
		return "a list"
	case "!!null":
		return "empty"
	case "!!bool":
		return "a bool"
	case "!!int", "!!float":
		return "a number"
	case "!!timestamp":
		return "a date"
	case "!!str", "!!merge":
		return "a string"
	}
	return "tagged " + n.Tag
}

// A collection with a tag of its own (!!set, !mine) means something else.
func isMap(n *yaml.Node) bool { return n.Kind == yaml.MappingNode && n.ShortTag() == "!!map" }
func isSeq(n *yaml.Node) bool { return n.Kind == yaml.SequenceNode && n.ShortTag() == "!!seq" }
