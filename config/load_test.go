package config

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const minimal = `
kafka: {brokers: [a:1]}
input: {topics: [orders], group: g}
output: {topic: out}
`

// withTables has one dimension and one lookup, both with no more than they need.
const withTables = minimal + `
dimensions: [{name: customer, topic: customer, primary_key: [id]}]
lookups: [{dimension: customer, on: {id: cust}, select: [name]}]
`

// with is minimal with one piece of it replaced.
func with(old, replacement string) string { return strings.Replace(minimal, old, replacement, 1) }

func mustParse(t *testing.T, yaml string, environ ...string) *Config {
	t.Helper()
	cfg, err := Parse("f.yaml", []byte(yaml), environ)
	require.NoError(t, err)
	return cfg
}

func refused(t *testing.T, yaml string, environ ...string) string {
	t.Helper()
	cfg, err := Parse("f.yaml", []byte(yaml), environ)
	require.Nil(t, cfg)
	return message(t, err)
}

// Every default of the configuration, as a value.
func TestDefaults(t *testing.T) {
	cfg := mustParse(t, withTables)
	cfg.places = places{}
	assert.Equal(t, &Config{
		Kafka: Kafka{Brokers: []string{"a:1"}, ClientID: "enricher"},
		Input: Input{
			Topics: []string{"orders"}, Group: "g", SessionTimeout: 45 * time.Second,
			OnGap: "fail", Format: "json", OnError: "dead_letter",
		},
		Dimensions: []Dimension{{
			Name: "customer", Topic: "customer", Format: "json", KeyFormat: "auto", PrimaryKey: []string{"id"},
			AutoPartition: AutoPartition{TimeUnit: "day", Retention: 7, TimeZone: "UTC"},
			Version:       "offset", Store: "badger", CacheKeys: CacheKeys{Auto: true},
			Refresh:           Refresh{Mode: "async", Interval: 10 * time.Second, MaxPending: 10000},
			DiscoveryInterval: 10 * time.Second, OnError: "dead_letter",
		}},
		Lookups: []Lookup{{
			Dimension: "customer", On: Conditions{{Column: "id", Value: Operand{Text: "cust"}}}, Join: "left",
			Select: Select{List: true, Fields: []SelectField{{Name: "name", Column: "name"}}},
			Rows:   "each", OnConflict: "fail", Async: true, Retry: Retry{Delay: time.Second},
		}},
		Output: Output{Topic: "out", Format: "json", Partition: "key", Compression: "snappy", MaxRecordSize: 1 << 20},
		Processing: Processing{
			Delivery: "exactly_once", Ordering: "ordered", Capacity: 10000, CommitInterval: 100 * time.Millisecond,
			TransactionTimeout: 10 * time.Second, Warmup: Warmup{OnTimeout: "fail"}, OnStale: "hold", ShutdownGrace: 30 * time.Second,
		},
		Store: Store{Dir: "./enricher-data", Memory: 512 << 20, MinFreeDisk: 1 << 30, Compression: "none"},
		Admin: Admin{Listen: "127.0.0.1:8080"},
		Log:   Log{Level: "info", Format: "auto"},
	}, cfg)
}

// The whole example of the specification, without what is not built.
func TestCoreExample(t *testing.T) {
	cfg, err := Load("testdata/core.yaml", nil)
	require.NoError(t, err)
	assert.Equal(t, []string{"localhost:9092"}, cfg.Kafka.Brokers)
	assert.Equal(t, "orders-enricher", cfg.Input.Group)
	assert.Equal(t, Start{}, cfg.Input.Start)
	d := cfg.Dimensions[0]
	assert.Equal(t, Columns{{"c_custkey", "int"}, {"dt", "string"}}, d.Columns)
	assert.Equal(t, []string{"c_custkey", "dt"}, d.PrimaryKey)
	assert.Equal(t, []string{"c_custkey"}, d.BucketKey)
	assert.Equal(t, []string{"dt"}, d.PartitionBy)
	k := cfg.Lookups[0]
	assert.Equal(t, Conditions{{"c_custkey", Operand{Text: "o_custkey"}}, {"dt", Operand{Text: "o_dt"}}}, k.On)
	assert.Equal(t, Select{Fields: []SelectField{{"customer_name", "c_name"}, {"customer_address", "c_address"}}}, k.Select)
	assert.Equal(t, Constants{{"c_mktsegment", []byte(`"BUILDING"`)}}, k.Where)
	assert.Empty(t, cfg.Output.Select)
	assert.Equal(t, Size(1<<20), cfg.Output.MaxRecordSize)
	assert.Equal(t, "orders_dead", cfg.DeadLetter.Topic)
	assert.Equal(t, OnErrorDeadLetter, cfg.OnError(cfg.Input.OnError))
}

// The example of the specification writes every key: so it is the list of keys that
// the tree must have, and the tree has no others.
func TestFullExampleHasEveryKey(t *testing.T) {
	data, err := os.ReadFile("testdata/full.yaml")
	require.NoError(t, err)
	cfg, err := parse("full.yaml", data, nil, nil)
	require.NoError(t, err)
	for _, key := range schemaKeys(reflect.TypeFor[Config](), spot{}) {
		assert.True(t, cfg.Written(strings.ReplaceAll(key, "[]", "[0]")), "%s is in the tree and not in the example", key)
	}
	assert.Equal(t, [][]string{{"c_nationkey"}}, cfg.Dimensions[0].Indexes)
	assert.Equal(t, AutoPartition{Column: "dt", TimeUnit: "day", Retention: 7, TimeZone: "UTC"}, cfg.Dimensions[0].AutoPartition)
	assert.Equal(t, Refresh{Mode: "async", Interval: 10 * time.Second, MaxPending: 10000}, cfg.Dimensions[0].Refresh)
}

// Every line of the list of what is not built names a key that exists.
func TestNotBuiltNamesKeys(t *testing.T) {
	keys := schemaKeys(reflect.TypeFor[Config](), spot{})
	for _, u := range notBuilt() {
		assert.Contains(t, keys, u.key)
	}
}

// The tags are the schema: their rules exist, defaults and bounds can be read.
func TestTags(t *testing.T) {
	l := &loader{places: places{at: map[string]place{}}, broken: map[string]bool{}}
	var walk func(reflect.Type)
	walk = func(typ reflect.Type) {
		l.defaults(typ)
		for f := range fields(typ) {
			if rule, ok := f.lookup("check"); ok {
				what, _ := checkText(rule, "(\x00")
				assert.NotEmpty(t, what, "rule %s of %s takes anything", rule, f.name)
			}
			for _, bound := range []string{f.tag("min"), f.tag("max")} {
				if bound != "" && f.typ != reflect.TypeFor[int]() && f.typ != reflect.TypeFor[float64]() {
					_, isSize := parseSize(bound)
					_, err := time.ParseDuration(bound)
					assert.True(t, isSize || err == nil, "bound %s of %s", bound, f.name)
				}
			}
			if f.tag("need") == "yes" {
				assert.NotEmpty(t, f.tag("example"), f.name)
			}
			switch {
			case f.isSection():
				walk(f.typ)
			case f.isList():
				walk(f.typ.Elem())
			}
		}
	}
	walk(reflect.TypeFor[Config]())
	assert.Empty(t, l.problems)
}

func TestValues(t *testing.T) {
	const lookupOf = minimal + "dimensions: [{name: d, topic: d, primary_key: [id]}]\nlookups:\n- dimension: d\n"
	number := func(text string) Conditions { return Conditions{{"id", Operand{Const: []byte(text)}}} }
	for name, tt := range map[string]struct {
		yaml string
		got  func(*Config) any
		want any
	}{
		"duration of several units":     {minimal + "processing: {shutdown_grace: 1h30m0.5s}", func(c *Config) any { return c.Processing.ShutdownGrace }, 90*time.Minute + 500*time.Millisecond},
		"no limit":                      {minimal + "processing: {warmup: {timeout: 0s}}", func(c *Config) any { return c.Processing.Warmup.Timeout }, time.Duration(0)},
		"binary size":                   {minimal + "store: {memory: 64MiB}", func(c *Config) any { return c.Store.Memory }, Size(64 << 20)},
		"decimal size":                  {minimal + "store: {memory: 64MB}", func(c *Config) any { return c.Store.Memory }, Size(64e6)},
		"size with a fraction":          {minimal + "store: {memory: 1.5GiB}", func(c *Config) any { return c.Store.Memory }, Size(3 << 29)},
		"size in bytes":                 {with("topic: out", "topic: out, max_record_size: 1000B"), func(c *Config) any { return c.Output.MaxRecordSize }, Size(1000)},
		"bare zero":                     {minimal + "store: {min_free_disk: 0}", func(c *Config) any { return c.Store.MinFreeDisk }, Size(0)},
		"quoted zero":                   {minimal + "store: {min_free_disk: '0'}", func(c *Config) any { return c.Store.MinFreeDisk }, Size(0)},
		"start at the end":              {with("group: g", "group: g, start: latest"), func(c *Config) any { return c.Input.Start }, Start{Latest: true}},
		"start at a time":               {with("group: g", "group: g, start: 2025-06-01T02:00:00+02:00"), func(c *Config) any { return c.Input.Start.Time.UTC() }, time.Date(2025, 6, 1, 0, 0, 0, 0, time.UTC)},
		"start at a quoted time":        {with("group: g", `group: g, start: "2025-06-01T00:00:00Z"`), func(c *Config) any { return c.Input.Start.String() }, "2025-06-01T00:00:00Z"},
		"yes and no are names":          {with("group: g", "group: yes"), func(c *Config) any { return c.Input.Group }, "yes"},
		"an unquoted date is text":      {with("group: g", "group: 2025-01-01"), func(c *Config) any { return c.Input.Group }, "2025-01-01"},
		"a section with nothing in it":  {minimal + "dead_letter:\nlookups:\n", func(c *Config) any { return c.DeadLetter }, DeadLetter{}},
		"address of version 6":          {with("a:1", "'[::1]:9092'"), func(c *Config) any { return c.Kafka.Brokers }, []string{"[::1]:9092"}},
		"listen on all interfaces":      {minimal + "admin: {listen: ':0'}", func(c *Config) any { return c.Admin.Listen }, ":0"},
		"password":                      {with("[a:1]", "[a:1], sasl: {mechanism: PLAIN, username: u, password: 'p '}"), func(c *Config) any { return c.Kafka.SASL.Password.Reveal() }, "p "},
		"no password":                   {with("[a:1]", "[a:1], sasl: {mechanism: '', username: '', password: ''}"), func(c *Config) any { return c.Kafka.SASL }, SASL{}},
		"readable TLS files":            {with("[a:1]", "[a:1], tls: {enabled: true, ca_file: testdata/core.yaml, cert_file: testdata/core.yaml, key_file: testdata/core.yaml}"), func(c *Config) any { return c.Kafka.TLS.CAFile }, "testdata/core.yaml"},
		"select keeps its order":        {lookupOf + "  on: {id: a}\n  select: {z: c1, a: c2, m.x: c1}", func(c *Config) any { return c.Lookups[0].Select }, Select{Fields: []SelectField{{"z", "c1"}, {"a", "c2"}, {"m.x", "c1"}}}},
		"select a list":                 {lookupOf + "  on: {id: a}\n  select: [z, a]", func(c *Config) any { return c.Lookups[0].Select }, Select{List: true, Fields: []SelectField{{"z", "z"}, {"a", "a"}}}},
		"select everything":             {lookupOf + "  on: {id: a}\n  select: '*'", func(c *Config) any { return c.Lookups[0].Select }, Select{All: true}},
		"select nothing":                {lookupOf + "  on: {id: a}\n  select: []", func(c *Config) any { return c.Lookups[0].Select }, Select{List: true, Fields: []SelectField{}}},
		"select an empty mapping":       {lookupOf + "  on: {id: a}\n  select: {}", func(c *Config) any { return c.Lookups[0].Select }, Select{Fields: []SelectField{}}},
		"output select keeps its order": {with("topic: out", "topic: out, select: {z: a.b, a: /x/0, $m: z}"), func(c *Config) any { return c.Output.Select }, Projections{{"z", "a.b"}, {"a", "/x/0"}, {"$m", "z"}}},
		"on keeps its order": {lookupOf + "  on: {z: a.b, a.b: /x~1y/0, k: $key, h: $headers.a.b, o: $offset}\n  select: []", func(c *Config) any { return c.Lookups[0].On }, Conditions{
			{"z", Operand{Text: "a.b"}}, {"a.b", Operand{Text: "/x~1y/0"}}, {"k", Operand{Text: "$key"}}, {"h", Operand{Text: "$headers.a.b"}}, {"o", Operand{Text: "$offset"}},
		}},
		"constant text":                    {lookupOf + "  on: {id: {const: EU}}\n  select: []", func(c *Config) any { return c.Lookups[0].On }, number(`"EU"`)},
		"constant with signs of HTML":      {lookupOf + "  on: {id: {const: '<a&b>'}}\n  select: []", func(c *Config) any { return c.Lookups[0].On }, number(`"<a&b>"`)},
		"constant empty text":              {lookupOf + "  on: {id: {const: ''}}\n  select: []", func(c *Config) any { return c.Lookups[0].On }, number(`""`)},
		"constant beyond 2^53":             {lookupOf + "  on: {id: {const: 9007199254740993}}\n  select: []", func(c *Config) any { return c.Lookups[0].On }, number(`9007199254740993`)},
		"constant beyond 2^64":             {lookupOf + "  on: {id: {const: 327267367867168100000}}\n  select: []", func(c *Config) any { return c.Lookups[0].On }, number(`327267367867168100000`)},
		"constant beyond a double":         {lookupOf + "  on: {id: {const: 1e400}}\n  select: []", func(c *Config) any { return c.Lookups[0].On }, number(`1e400`)},
		"constant with zeros at the end":   {lookupOf + "  on: {id: {const: -1.10}}\n  select: []", func(c *Config) any { return c.Lookups[0].On }, number(`-1.10`)},
		"constant number in quotes":        {lookupOf + "  on: {id: {const: '1e400'}}\n  select: []", func(c *Config) any { return c.Lookups[0].On }, number(`"1e400"`)},
		"constant number tagged as string": {lookupOf + "  on: {id: {const: !!str 5}}\n  select: []", func(c *Config) any { return c.Lookups[0].On }, number(`"5"`)},
		"constant bool":                    {lookupOf + "  on: {id: {const: true}}\n  select: []", func(c *Config) any { return c.Lookups[0].On }, number(`true`)},
		"constant date":                    {lookupOf + "  on: {id: {const: 2025-01-01}}\n  select: []", func(c *Config) any { return c.Lookups[0].On }, number(`"2025-01-01"`)},
		"where keeps its order": {lookupOf + "  on: {id: a}\n  select: []\n  where: {z: 1, a: x, m: false}", func(c *Config) any { return c.Lookups[0].Where }, Constants{
			{"z", []byte(`1`)}, {"a", []byte(`"x"`)}, {"m", []byte(`false`)},
		}},
		"columns keep their order": {minimal + "dimensions: [{name: d, topic: d, primary_key: [z], columns: {z: int, a: string, m.x: bytes}}]", func(c *Config) any { return c.Dimensions[0].Columns }, Columns{
			{"z", "int"}, {"a", "string"}, {"m.x", "bytes"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tt.want, tt.got(mustParse(t, tt.yaml)))
		})
	}
}

// Keys that are not built yet are read like the others.
func TestValuesLater(t *testing.T) {
	const dimensionOf = minimal + "dimensions: [{name: d, primary_key: [id], "
	for name, tt := range map[string]struct {
		yaml string
		got  func(*Config) any
		want any
	}{
		"share":          {minimal + "dead_letter: {max_rate: 0.05}", func(c *Config) any { return c.DeadLetter.MaxRate }, 0.05},
		"whole share":    {minimal + "dead_letter: {max_rate: 1}", func(c *Config) any { return c.DeadLetter.MaxRate }, 1.0},
		"keys in memory": {dimensionOf + "topic: d, cache_keys: 500}]", func(c *Config) any { return c.Dimensions[0].CacheKeys }, CacheKeys{Count: 500}},
		"no cache":       {dimensionOf + "topic: d, cache_keys: 0}]", func(c *Config) any { return c.Dimensions[0].CacheKeys }, CacheKeys{}},
		"pattern":        {dimensionOf + `topic_pattern: 'd_(?P<dt>\d{4})'}]`, func(c *Config) any { return c.Dimensions[0].TopicPattern }, `d_(?P<dt>\d{4})`},
		"version":        {dimensionOf + "topic: d, version: 'column:changed.at'}]", func(c *Config) any { return c.Dimensions[0].Version }, "column:changed.at"},
		"indexes":        {dimensionOf + "topic: d, indexes: [[a, b], [c]]}]", func(c *Config) any { return c.Dimensions[0].Indexes }, [][]string{{"a", "b"}, {"c"}}},
		"sync":           {dimensionOf + "topic: d, refresh: {mode: sync, interval: 0s}}]", func(c *Config) any { return c.Dimensions[0].Refresh }, Refresh{Mode: "sync", MaxPending: 10000}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg, err := parse("f.yaml", []byte(tt.yaml), nil, nil)
			require.NoError(t, err)
			assert.Equal(t, tt.want, tt.got(cfg))
		})
	}
}

func TestAnchorsAndMerges(t *testing.T) {
	cfg := mustParse(t, `
kafka: {brokers: &b [a:1, b:1]}
input: {topics: &t [orders], group: &g g, start: latest}
output: {topic: *g}
dimensions:
  - &customer
    name: customer
    topic: customer
    primary_key: [id]
    on_error: skip
    columns: &columns {b: int, a: string}
  - <<: *customer
    name: nation
    topic: nation
    columns: {c: bool, <<: [*columns, {a: bytes, z: int}], b: date}
lookups:
  - {dimension: nation, on: {id: {const: *g}}, select: {x: *g}}
`)
	assert.Equal(t, []string{"a:1", "b:1"}, cfg.Kafka.Brokers)
	assert.Equal(t, "g", cfg.Output.Topic)
	nation := cfg.Dimensions[1]
	assert.Equal(t, "nation", nation.Name)
	assert.Equal(t, OnErrorSkip, nation.OnError)
	assert.Equal(t, []string{"id"}, nation.PrimaryKey)
	assert.Equal(t, Columns{{"c", "bool"}, {"a", "string"}, {"z", "int"}, {"b", "date"}}, nation.Columns)
	assert.JSONEq(t, `"g"`, string(cfg.Lookups[0].On[0].Value.Const))
	assert.Equal(t, "f.yaml:10", cfg.Locate("dimensions[1].on_error"), "where it is written")
}

func TestPasswordFile(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		return path
	}
	withFile := func(path string) string {
		return with("[a:1]", "[a:1], sasl: {mechanism: PLAIN, username: u, password_file: "+path+"}")
	}
	for content, want := range map[string]string{"x": "x", "x y \n": "x y ", "x\r\n": "x", "x\ny\n": "x\ny", "\tx": "\tx"} {
		assert.Equal(t, want, mustParse(t, withFile(file("password", content))).Kafka.SASL.Password.Reveal())
	}
	assert.Contains(t, refused(t, withFile(file("empty", "\n"))), "is empty (a file that holds the password)")
	assert.Contains(t, refused(t, withFile(dir)), "can't be read: it is a folder")
	assert.Contains(t, refused(t, withFile(file("large", strings.Repeat("x", maxPassword+1)))), "it has more than 64KiB")
	assert.Contains(t, refused(t, withFile(file("both", "x")), "ENRICHER_KAFKA__SASL__PASSWORD=y"), "f.yaml:2: kafka.sasl.password_file: is set beside kafka.sasl.password (one of the two)")
}

func TestStartString(t *testing.T) {
	assert.Equal(t, "earliest", Start{}.String())
	assert.Equal(t, "latest", Start{Latest: true}.String())
	assert.Equal(t, "2025-06-01T00:00:00Z", Start{Time: time.Date(2025, 6, 1, 0, 0, 0, 0, time.UTC)}.String())
}

// What is proposed for a value that is refused is a value that is taken.
func TestSuggestionsAreRight(t *testing.T) {
	for text, want := range map[string]string{"5 s": "5s", "5sec": "5s", "2 min": "2m", "3Hours": "3h", "250millis": "250ms", "250MS": "250ms", "1day": "24h"} {
		assert.Equal(t, want, suggestDuration(text))
		_, err := time.ParseDuration(want)
		require.NoError(t, err)
	}
	for text, want := range map[string]string{"64M": "64MiB", "64Mi": "64MiB", "64 mb": "64MiB", "2g": "2GiB", "1k": "1KiB", "1tb": "1TiB"} {
		assert.Equal(t, want, suggestSize(text))
		_, ok := parseSize(want)
		assert.True(t, ok)
	}
	assert.Equal(t, "1MiB", sizeOfNumber("1048576"))
	assert.Equal(t, "1000000B", sizeOfNumber("1000000"))
	for unit, want := range map[string]Size{"1kB": 1e3, "1KB": 1e3, "1MB": 1e6, "1GB": 1e9, "1TB": 1e12, "1KiB": 1 << 10} {
		got, ok := parseSize(unit)
		assert.True(t, ok)
		assert.Equal(t, want, got)
	}
	for _, text := range []string{"", "1", "B", "1b", "1mb", "1.5B", "-1B", "+1B", "1e3B", "0x1B", " 1B", "1 B", "9223372036854775808B", "1.B", ".5KiB"} {
		_, ok := parseSize(text)
		assert.False(t, ok, text)
	}
}

func TestLoadUnreadable(t *testing.T) {
	dir := t.TempDir()
	large := filepath.Join(dir, "large.yaml")
	require.NoError(t, os.WriteFile(large, make([]byte, maxFileSize+1), 0o600))
	for path, want := range map[string]string{
		filepath.Join(dir, "none.yaml"): "no such file or directory",
		dir:                             "it is a folder",
		large:                           "it has more than 1MiB",
	} {
		cfg, err := Load(path, nil)
		assert.Nil(t, cfg)
		assert.Equal(t, path+": the configuration can't be read: "+want+" (a readable YAML file)\n", message(t, err))
	}
}

func TestEffectiveValues(t *testing.T) {
	cfg := mustParse(t, withTables)
	assert.Equal(t, OnErrorFail, cfg.OnError(cfg.Input.OnError), "without a dead-letter topic")
	assert.Equal(t, OnErrorSkip, cfg.OnError(OnErrorSkip))
	assert.Equal(t, "kept", cfg.InstanceID("kept"))
	assert.Equal(t, 0, cfg.DimensionIndex("customer"))
	assert.Equal(t, -1, cfg.DimensionIndex("none"))

	cfg = mustParse(t, withTables+"dead_letter: {topic: dead}", "ENRICHER_INPUT__INSTANCE_ID=i-1")
	assert.Equal(t, OnErrorDeadLetter, cfg.OnError(cfg.Input.OnError))
	assert.Equal(t, OnErrorFail, cfg.OnError(OnErrorFail))
	assert.Equal(t, "i-1", cfg.InstanceID("kept"))
}
