package pipeline

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestGap(t *testing.T) {
	id := laneID{"orders", 3}
	for name, tc := range map[string]struct {
		committed       int64
		gap             bool
		missing, resume int64
	}{
		"at the start of the log":  {100, false, 0, 0},
		"at its end":               {200, false, 0, 0},
		"inside":                   {150, false, 0, 0},
		"below: retention was by":  {40, true, 60, 100},
		"beyond: the log was lost": {250, true, 50, 200},
	} {
		t.Run(name, func(t *testing.T) {
			g, out := findGap(id, tc.committed, logBounds{100, 200})
			assert.Equal(t, tc.gap, out)
			if out {
				assert.Equal(t, tc.missing, g.missing())
				assert.Equal(t, tc.resume, g.resume())
			}
		})
	}
	g, _ := findGap(id, 40, logBounds{100, 200})
	assert.EqualError(t, g, "committed offset 40 of topic orders, partition 3 lies outside the log (100 to 200): 60 facts are gone or were never there; "+
		"set input.on_gap: continue to go on at 100, or reset the group's offset")
}
