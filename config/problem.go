package config

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Problem is one thing that is wrong with a configuration.
type Problem struct {
	// Place is FILE:LINE, the name of an environment variable, or FILE when no line
	// is to blame.
	Place string
	// Line is the line in the file from 1; 0 when the place is a variable or unknown.
	Line int
	// Path is the key, `lookups[0].on.id`; empty when the file as a whole is meant.
	Path string
	// What is wrong.
	What string
	// Right is what would be right; empty when What says it already.
	Right string
}

// String gives the line that is shown to people; it never holds a line break.
func (p Problem) String() string {
	var b strings.Builder
	b.WriteString(p.Place)
	if p.Path != "" {
		b.WriteString(": ")
		b.WriteString(p.Path)
	}
	b.WriteString(": ")
	b.WriteString(p.What)
	if p.Right != "" {
		b.WriteString(" (")
		b.WriteString(p.Right)
		b.WriteString(")")
	}
	return oneLine(b.String())
}

// InvalidError says that a configuration is refused. It is a matter of exit code
// 2; print each of its problems on a line of its own.
type InvalidError struct {
	// Problems in the order of the file, those of the environment after them.
	Problems []Problem
}

// Error gives all problems, a line each.
func (e *InvalidError) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// NewInvalidError sorts the problems and drops repeated ones. It gives nil when
// there are none, so that its result can be returned as it is.
func NewInvalidError(problems []Problem) error {
	if len(problems) == 0 {
		return nil
	}
	sorted := slices.Clone(problems)
	slices.SortStableFunc(sorted, func(a, b Problem) int {
		return cmp.Or(
			cmp.Compare(sortLine(a), sortLine(b)),
			cmp.Compare(envName(a), envName(b)),
		)
	})
	return &InvalidError{Problems: slices.Compact(sorted)}
}

// sortLine puts problems of the environment after those of the file.
func sortLine(p Problem) int {
	if p.Line == 0 && strings.HasPrefix(p.Place, envPrefix) {
		return int(^uint(0) >> 1)
	}
	return p.Line
}

func envName(p Problem) string {
	if p.Line == 0 {
		return p.Place
	}
	return ""
}

// places says where each key that was written stands.
type places struct {
	file string
	at   map[string]place
}

// place is a line of the file or a variable of the environment.
type place struct {
	line int
	env  string
}

// find gives the place of the path, or of the nearest enclosing one that was
// written. The root is line 1.
func (p *places) find(path string) place {
	for path != "" {
		if at, ok := p.at[path]; ok {
			return at
		}
		path = parent(path)
	}
	return place{line: 1}
}

// problem is a Problem at the path's place.
func (p *places) problem(path, what, right string) Problem {
	at := p.find(path)
	return Problem{Place: p.render(at), Line: at.line, Path: path, What: what, Right: right}
}

func (p *places) render(at place) string {
	if at.env != "" {
		return at.env
	}
	return p.file + ":" + strconv.Itoa(at.line)
}

// parent cuts the last element (.name or [index]) off the path. A name may hold
// dots and brackets itself; then several cuts lead to the same key.
func parent(path string) string {
	return path[:max(strings.LastIndexAny(path, ".["), 0)]
}

// Locate tells where the key of a path such as `lookups[0].on.id` is set:
// FILE:LINE, or the name of the environment variable. A key that was not written
// has the place of the nearest one around it.
func (c *Config) Locate(path string) string {
	return c.places.render(c.places.find(path))
}

// Problem describes a problem that was found after loading as one of the
// configuration, at the place of the path. Right may be empty. Give all of them
// to [NewInvalidError].
func (c *Config) Problem(path, what, right string) Problem {
	return c.places.problem(path, what, right)
}

// Written tells whether the file or the environment sets the key of the path,
// even if to its default.
func (c *Config) Written(path string) bool {
	_, ok := c.places.at[path]
	return ok
}

// oneLine escapes what would break a line of output or a terminal.
func oneLine(s string) string {
	if strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if unicode.IsPrint(r) {
			b.WriteRune(r)
		} else {
			q := strconv.QuoteRuneToASCII(r)
			b.WriteString(q[1 : len(q)-1])
		}
	}
	return b.String()
}

// quote shows a value of the file in a message, shortened when it is long.
func quote(s string) string {
	const most = 60
	if r := []rune(s); len(r) > most {
		s = string(r[:most]) + "…"
	}
	return strconv.Quote(s)
}
