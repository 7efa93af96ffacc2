package main

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"enricher/admin"
	"enricher/changelog"
	"enricher/lookup"
	"enricher/pipeline"
)

// because makes reasons of pairs of a word and a detail.
func because(pairs ...string) (reasons []admin.Reason) {
	for pair := range slices.Chunk(pairs, 2) {
		reasons = append(reasons, admin.Reason{Reason: pair[0], Detail: pair[1]})
	}
	return reasons
}

func TestReadiness(t *testing.T) {
	dimension := func(edit func(*dimensionStatus)) dimensionStatus {
		s := dimensionStatus{Status: changelog.Status{Name: "customer", Topic: "crm.customer", Warm: true, Ready: true}}
		edit(&s)
		return s
	}
	warm := dimension(func(*dimensionStatus) {})
	halfway := dimension(func(s *dimensionStatus) {
		s.Warm, s.Ready = false, false
		s.Progress = &changelog.Progress{Rows: 400, Ratio: 0.4, RowsPerSecond: 200, SecondsLeft: 3}
	})
	cases := map[string]struct {
		at         phase
		dimensions []dimensionStatus
		facts      []pipeline.Reason
		want       []admin.Reason
	}{
		"ready":             {phaseRunning, []dimensionStatus{warm}, nil, nil},
		"starting":          {phaseStarting, []dimensionStatus{warm}, nil, because("starting", "the store is being opened")},
		"stopping":          {phaseStopping, []dimensionStatus{warm}, nil, because("stopping", "the service was told to stop, or has to")},
		"warming up":        {phaseWarming, []dimensionStatus{warm, halfway}, nil, because("warming_up", "customer: 40 %, 400 rows, 200 rows/s, 3s left")},
		"warm, not joined":  {phaseWarming, []dimensionStatus{warm}, nil, because("not_a_group_member", "the service has not joined the group yet")},
		"a new unread one":  {phaseWarming, []dimensionStatus{dimension(func(s *dimensionStatus) { s.Warm = false })}, nil, because("warming_up", "customer: not begun")},
		"the pipeline says": {phaseRunning, []dimensionStatus{warm}, []pipeline.Reason{{Reason: "writes_failing", Detail: "d"}}, because("writes_failing", "d")},
		"all of them": {phaseRunning, []dimensionStatus{
			dimension(func(s *dimensionStatus) { s.Ready, s.Reasons = false, []string{"not fresh for 40s", "paused"} }), halfway,
		}, []pipeline.Reason{{Reason: "not_a_group_member", Detail: "d"}}, because("dimension_not_ready", "customer: not fresh for 40s; paused", "warming_up", "customer: 40 %, 400 rows, 200 rows/s, 3s left", "not_a_group_member", "d")},
		"topic missing": {
			phaseWarming,
			[]dimensionStatus{dimension(func(s *dimensionStatus) {
				s.Warm, s.TopicMissing, s.WaitingFor = false, true, "topic crm.customer: create it"
			})},
			nil, because("topic_missing", "customer: topic crm.customer: create it"),
		},
		"topic missing, nothing said": {
			phaseRunning,
			[]dimensionStatus{dimension(func(s *dimensionStatus) { s.Ready, s.TopicMissing = false, true })},
			nil, because("topic_missing", "customer: the topic crm.customer is missing"),
		},
		"what holds it up": {
			phaseWarming,
			[]dimensionStatus{dimension(func(s *dimensionStatus) {
				s.Warm, s.WaitingFor, s.Paused, s.LastError = false, "brokers", "disk", "refused"
			})},
			nil, because("warming_up", "customer: waiting: brokers; paused: disk; last error: refused"),
		},
		"cold ones count as ready": {phaseRunning, []dimensionStatus{dimension(func(s *dimensionStatus) { s.Cold, s.Warm, s.TopicMissing = true, false, true })}, nil, nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) { assert.Equal(t, c.want, readiness(c.at, c.dimensions, c.facts)) })
	}
}

func TestLookupStatuses(t *testing.T) {
	steps := []lookup.StepInfo{{Dimension: "a"}, {Dimension: "b"}}
	got := lookupStatuses(steps, []pipeline.LookupStatus{{Dimension: "a", Matches: 7, Misses: map[string]int64{"no_row": 2}}})
	text, err := json.Marshal(got)
	require.NoError(t, err)
	var back []map[string]any
	require.NoError(t, json.Unmarshal(text, &back))
	assert.InDelta(t, 7, back[0]["matches"], 0)
	assert.InDelta(t, 2, back[0]["misses"].(map[string]any)["no_row"], 0)
	assert.Equal(t, map[string]any{}, back[1]["misses"], "before the pipeline runs")
	assert.Equal(t, "b", back[1]["dimension"])
}

func TestADimensionWithoutAStoreAnswersAsEmpty(t *testing.T) {
	d := &dimension{}
	view := d.Read()
	defer view.Close()
	_, found, err := view.Get(nil, []byte("k"))
	require.NoError(t, err)
	assert.False(t, found)
	assert.False(t, view.HasPartition(nil))
	assert.False(t, d.warm())
	assert.Equal(t, dimensionStatus{}, d.status())
}

func TestClosersCloseInReverseAndAll(t *testing.T) {
	var order []int
	var c closers
	one, two := errors.New("one"), errors.New("two")
	c.add(func() error { order = append(order, 1); return one })
	c.add(func() error { order = append(order, 2); return two })
	err := c.close()
	assert.Equal(t, []int{2, 1}, order)
	require.ErrorIs(t, err, one)
	require.ErrorIs(t, err, two)
}

func TestBuildInfoAndReadyMetrics(t *testing.T) {
	ready := false
	reg := newRegistry(versionInfo{"v1", "abc", "go1"}, func() bool { return ready })
	value := func(name string) float64 {
		families, err := reg.Gather()
		require.NoError(t, err)
		for _, f := range families {
			if f.GetName() == name {
				return f.GetMetric()[0].GetGauge().GetValue()
			}
		}
		t.Fatalf("no metric %s", name)
		return 0
	}
	assert.InDelta(t, 0, value("enricher_ready"), 0)
	ready = true
	assert.InDelta(t, 1, value("enricher_ready"), 0)
	assert.InDelta(t, 1, value("enricher_build_info"), 0)
	assert.Positive(t, value("go_goroutines"))
}

func TestClientMetricsOfARoleWithSeveralClients(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	broker := cluster(t).ListenAddrs()[0]
	facts := newClientMetrics(reg, "facts")
	other := newClientMetrics(reg, "dimension_customer")
	start := func(m *clientMetrics) *kgo.Client {
		c, err := kgo.NewClient(kgo.SeedBrokers(broker), kgo.WithHooks(m))
		require.NoError(t, err)
		require.NoError(t, c.Ping(t.Context()))
		return c
	}
	connects := func(role string) (n float64) {
		families, err := reg.Gather()
		require.NoError(t, err)
		for _, f := range families {
			for _, m := range f.GetMetric() {
				if f.GetName() == "enricher_kafka_connects_total" && m.GetLabel()[0].GetValue() == role {
					n += m.GetCounter().GetValue()
				}
			}
		}
		return n
	}
	a, b := start(facts), start(facts) // at the same time
	both := connects("facts")
	assert.GreaterOrEqual(t, both, 2.0)
	assert.Zero(t, connects("dimension_customer"))
	a.Close()
	c := start(facts) // one after another
	defer c.Close()
	assert.Greater(t, connects("facts"), both, "the counters go on")
	d := start(other)
	defer d.Close()
	b.Close()
	families, err := reg.Gather()
	require.NoError(t, err)
	gauges := map[string]int{}
	for _, f := range families {
		gauges[f.GetName()] = len(f.GetMetric())
	}
	assert.Equal(t, 2, gauges["enricher_kafka_buffered_fetch_bytes"], "one for each role")
	assert.Equal(t, 2, gauges["enricher_kafka_buffered_produce_records"])
	assert.Len(t, facts.clients, 1)
}

func TestLimitMemoryLeavesTheEnvironmentsLimit(t *testing.T) {
	for _, c := range []struct {
		environ []string
		want    string
	}{
		{[]string{"GOMEMLIMIT=1GiB"}, "that of GOMEMLIMIT in the environment"},
		{[]string{"GOMEMLIMIT=", "NOT_GOMEMLIMIT=1"}, "limit=768MiB"},
	} {
		var out syncBuffer
		limitMemory(t.Context(), 512<<20, c.environ, newLogger(&out, "info", "text"))
		assert.Contains(t, out.String(), c.want)
	}
}

func TestProgressText(t *testing.T) {
	assert.Equal(t, "0 %, 0 rows, 0 rows/s", progressText(changelog.Progress{SecondsLeft: -1}))
	assert.Equal(t, "99 %, 5 rows, 2 rows/s, 2m0s left", progressText(changelog.Progress{Ratio: 0.99, Rows: 5, RowsPerSecond: 2.4, SecondsLeft: (2 * time.Minute).Seconds()}))
}
