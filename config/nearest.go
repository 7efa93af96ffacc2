package config

import "strings"

// nearest gives the candidate that the name is probably a misspelling of, or "".
// Case does not count: `Brokers` is `brokers`.
func nearest(name string, candidates []string) string {
	const longest = 64 // a longer name is no misspelling of one of ours
	if name == "" || len(name) > longest {
		return ""
	}
	best, bestDistance := "", 0
	for _, c := range candidates {
		if c == "" {
			continue
		}
		d := distance(strings.ToLower(name), strings.ToLower(c))
		if d <= allowed(name, c) && (best == "" || d < bestDistance) {
			best, bestDistance = c, d
		}
	}
	if best == "" {
		best = longestPrefix(strings.ToLower(name), candidates)
	}
	return best
}

// longestPrefix gives the longest candidate that the name continues or is the
// beginning of: `integer` is `int`, `mem` is `memory`.
func longestPrefix(name string, candidates []string) string {
	const least = 3
	best := ""
	for _, c := range candidates {
		continues := len(c) >= least && strings.HasPrefix(name, strings.ToLower(c))
		begins := len(name) >= least && strings.HasPrefix(strings.ToLower(c), name)
		if (continues || begins) && len(c) > len(best) {
			best = c
		}
	}
	return best
}

// allowed is how many edits a misspelling may have: a third of a word may be
// wrong, but never all of it.
func allowed(a, b string) int {
	return min(len(a)-1, len(b)-1, max(1, max(len(a), len(b))/3), 3)
}

// distance counts the insertions, deletions, substitutions and swaps of
// neighbours that make a of b (optimal string alignment).
func distance(a, b string) int {
	x, y := []rune(a), []rune(b)
	before, prev, cur := make([]int, len(y)+1), make([]int, len(y)+1), make([]int, len(y)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(x); i++ {
		cur[0] = i
		for j := 1; j <= len(y); j++ {
			cost := 1
			if x[i-1] == y[j-1] {
				cost = 0
			}
			cur[j] = min(prev[j]+1, cur[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && x[i-1] == y[j-2] && x[i-2] == y[j-1] {
				cur[j] = min(cur[j], before[j-2]+1)
			}
		}
		before, prev, cur = prev, cur, before
	}
	return prev[len(y)]
}
