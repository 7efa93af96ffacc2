package changelog

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"enricher/record"
)

func TestRoute(t *testing.T) {
	s := newSchema(t, "dt:int region:string n:int name:string", "id dt", "dt")
	r, err := newRoute("", `customer_(?P<region>\w+)_(?P<dt>\d+)(-(?P<n>\w+))?(?P<unused>_x)?`, s)
	require.NoError(t, err)
	assert.Equal(t, `customer_(?P<region>\w+)_(?P<dt>\d+)(-(?P<n>\w+))?(?P<unused>_x)?`, r.name())
	for topic, want := range map[string]bool{
		"customer_eu_2025": true, "customer_eu_2025-7": true, "xcustomer_eu_2025": false, "customer_eu_2025.bak": false, "customer": false,
	} {
		assert.Equal(t, want, r.matches(topic), topic)
	}
	column := func(topic, name string) string {
		if f := r.origin(topic).fill(s.Index(name)); f != nil {
			return string(f.json)
		}
		return ""
	}
	assert.Equal(t, `2025`, column("customer_eu_2025-7", "dt"))
	assert.Equal(t, `"eu"`, column("customer_eu_2025-7", "region"))
	assert.Equal(t, `7`, column("customer_eu_2025-7", "n"))
	assert.Equal(t, `"x"`, column("customer_eu_2025-x", "n"), "each record says what is wrong with it")
	assert.Empty(t, column("customer_eu_2025", "n"), "a group that takes no part fills nothing")
	assert.Empty(t, column("customer_eu_2025", "name"))

	o := r.origin("customer_eu_2025")
	assert.True(t, o.named)
	assert.Equal(t, partitionOf(t, record.Int, "2025"), o.partition)
	assert.False(t, r.origin("customer_eu_0025").named, "0025 is no int")
}

func TestRouteNamesNoPartition(t *testing.T) {
	for name, s := range map[string]*record.Schema{
		"none":                    newSchema(t, "dt:string", "id", ""),
		"one that is no group":    newSchema(t, "dt:string", "id region", "region"),
		"a second one not in it":  newSchema(t, "dt:string", "id dt region", "dt region"),
		"the group is not in one": newSchema(t, "dt:string", "id dt region", "region"),
	} {
		r, err := newRoute("", `customer_(?P<dt>\d+)`, s)
		require.NoError(t, err)
		assert.False(t, r.origin("customer_2025").named, name)
	}
	r, err := newRoute("customer", "", newSchema(t, "dt:string", "id dt", "dt"))
	require.NoError(t, err)
	assert.False(t, r.origin("customer").named)
	assert.Equal(t, "customer", r.name())
	assert.True(t, r.matches("customer"))
	assert.False(t, r.matches("customer2"))
}

func TestRouteRefusals(t *testing.T) {
	for _, c := range []struct{ topic, pattern, want string }{
		{"", "", "topic is missing"}, {"a", "b", "both"}, {"", "(", "topic pattern"},
	} {
		_, err := newRoute(c.topic, c.pattern, nil)
		require.ErrorContains(t, err, c.want)
	}
}

func TestRoster(t *testing.T) {
	type step struct {
		listed []string
		left   []string
	}
	for _, c := range []struct {
		name  string
		known []string
		steps []step
	}{
		{"two listings without it", []string{"a", "b", "c"}, []step{{[]string{"a", "c"}, nil}, {[]string{"a", "c"}, []string{"b"}}}},
		{"it comes back between them", []string{"a", "b"}, []step{{[]string{"a"}, nil}, {[]string{"a", "b"}, nil}, {[]string{"a"}, nil}, {[]string{"a"}, []string{"b"}}}},
		{"all at once never leave", []string{"a", "b"}, []step{{nil, nil}, {nil, nil}, {nil, nil}, {[]string{"a"}, nil}, {[]string{"a"}, []string{"b"}}}},
		{"all at once between the two do not count", []string{"a", "b"}, []step{{[]string{"a"}, nil}, {nil, nil}, {[]string{"a"}, []string{"b"}}}},
		{"others do not count as one of them", []string{"a"}, []step{{[]string{"x"}, nil}, {[]string{"x"}, nil}}},
		{"two leave together", []string{"a", "b", "c"}, []step{{[]string{"c"}, nil}, {[]string{"c"}, []string{"a", "b"}}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var r roster
			r.know(c.known...)
			for i, s := range c.steps {
				assert.Equal(t, s.left, r.listed(s.listed), "listing %d", i)
			}
		})
	}
	var r roster
	r.know("a", "b")
	r.listed([]string{"a"})
	r.know("b") // known already: what was counted stays
	assert.Equal(t, []string{"b"}, r.missing())
	r.forget("b")
	assert.Empty(t, r.listed([]string{"a"}))
}
