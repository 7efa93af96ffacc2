package changelog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// discover looks which topics and buckets there are.
func (w *watcher) discover(ctx context.Context) {
	f := w.f
	metas, err := w.listTwice(ctx)
	if err != nil {
		w.outcome(ctx, sourceTopics, []error{err})
		return
	}
	w.meta = metas
	names := present(metas)
	f.d.state.missing(len(names) == 0)
	f.setMissing(names)
	var problems []error
	if f.d.route.pattern != nil {
		for _, topic := range w.roster.listed(names) {
			w.roster.forget(topic)
			f.leave(ctx, topic)
		}
		w.roster.know(names...)
	}
	for _, name := range f.names() {
		if !slices.Contains(names, name) {
			problems = append(problems, fmt.Errorf("topic %q: %w", name, errMissing))
		}
	}
	for _, name := range names {
		if err := w.follow(ctx, name); err != nil {
			problems = append(problems, err)
		}
	}
	w.outcome(ctx, sourceTopics, problems)
}

// listTwice lists the topics, a second time when there is a surprise, which must be in both.
func (w *watcher) listTwice(ctx context.Context) (map[string]topicMeta, error) {
	f := w.f
	known := f.names()
	metas, err := f.d.list(ctx, f.cl, known)
	if err != nil {
		return nil, err
	}
	ids := f.ids()
	surprise := map[string]topicMeta{}
	for name, id := range ids {
		if m := metas[name]; errors.Is(m.err, errMissing) || m.err == nil && isOther(m.id, id) {
			surprise[name] = m
		}
	}
	if len(surprise) == 0 {
		return metas, nil
	}
	if !sleep(ctx, certainBefore) {
		return nil, ctx.Err()
	}
	again, err := f.d.list(ctx, f.cl, known)
	if err != nil {
		return nil, err
	}
	for name, m := range again {
		id, isKnown := ids[name]
		if first, surprised := surprise[name]; isKnown && (errors.Is(m.err, errMissing) || m.err == nil && isOther(m.id, id)) &&
			(!surprised || first.id != m.id) {
			again[name] = topicMeta{err: errors.New("the brokers do not agree on it yet")}
		}
	}
	return again, nil
}

func isOther(a, b [16]byte) bool {
	none := [16]byte{}
	return a != b && a != none && b != none
}

// names are the topics that are read, in order.
func (f *feed) names() []string {
	f.d.state.mu.Lock()
	defer f.d.state.mu.Unlock()
	var names []string
	for name := range f.topics {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func (f *feed) ids() map[string][16]byte {
	f.d.state.mu.Lock()
	defer f.d.state.mu.Unlock()
	ids := make(map[string][16]byte, len(f.topics))
	for name, t := range f.topics {
		ids[name] = t.id
	}
	return ids
}

// setMissing takes in which topics there are.
func (f *feed) setMissing(present []string) {
	s := &f.d.state
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, t := range f.topics {
		t.missing = !slices.Contains(present, name)
	}
	s.wake()
}

// follow makes sure that a topic that is there is read, with all its buckets.
func (w *watcher) follow(ctx context.Context, name string) error {
	f, meta := w.f, w.meta[name]
	if meta.err != nil {
		return fmt.Errorf("topic %q: %w", name, meta.err)
	}
	s := &f.d.state
	s.mu.Lock()
	var buckets []int
	t := f.topics[name]
	leaving := slices.ContainsFunc(f.leaving, func(d drop) bool { return d.topic == name })
	var id [16]byte
	if t != nil {
		buckets, id = slices.Clone(t.buckets), t.id
	}
	s.mu.Unlock()
	switch {
	case leaving: // a topic of the same name, created again, whose old rows are still there
		return nil
	case t != nil && isOther(meta.id, id):
		f.stop(ctx, buckets, reasonRecreated, recreated(name, meta.id, id))
		return nil
	case len(meta.leaders) < len(buckets):
		return fmt.Errorf("topic %q: the answer has %d Kafka partitions of %d", name, len(meta.leaders), len(buckets))
	case len(meta.leaders) == len(buckets):
		return nil
	}
	askedAt := time.Now()
	topics, err := f.d.lookAt(ctx, f.cl, w.meta, []string{name})
	if err != nil {
		return err
	}
	f.d.known(ctx, topics)
	added := topics[0].fromStart(len(buckets), askedAt)
	s.mu.Lock()
	f.add(added, false, askedAt, t == nil && f.d.route.pattern != nil)
	s.wake()
	s.mu.Unlock()
	f.log.InfoContext(ctx, "reading new buckets from their beginning", "topic", name, "buckets", len(added), "before", len(buckets))
	return nil
}

// leave takes in that a topic of the pattern left.
func (f *feed) leave(ctx context.Context, topic string) {
	s := &f.d.state
	s.mu.Lock()
	t := f.topics[topic]
	if t == nil {
		s.mu.Unlock()
		return
	}
	delete(f.topics, topic)
	if t.id != ([16]byte{}) {
		if f.departed == nil {
			f.departed = map[[16]byte]bool{}
		}
		f.departed[t.id] = true
	}
	d := drop{topic: topic}
	for _, i := range t.buckets {
		f.track.buckets[i].left = true
		d.buckets = append(d.buckets, f.track.buckets[i].id)
	}
	var stay []string
	for name := range f.topics {
		stay = append(stay, name)
	}
	var ok bool
	if d.partition, ok = f.d.route.leaves(topic, stay); ok {
		f.leaving = append(f.leaving, d)
		signal(f.todo)
	}
	delete(f.failures, sourceFetch) // it may be of this topic; others fail again
	f.edition++
	signal(f.more)
	f.arrive()
	f.d.rehide()
	f.d.reached()
	s.wake()
	s.mu.Unlock()
	f.cl.PurgeTopicsFromConsuming(topic)
	f.log.InfoContext(ctx, "a topic is gone, its rows leave", "topic", topic)
	if !ok {
		f.breakDown(ctx, reasonTopicGone, fmt.Sprintf("topic %q left, and its rows can't be told from those of others", topic))
	}
}
