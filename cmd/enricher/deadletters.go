package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"enricher/pipeline"
)

// deadLetterFunc writes one record of a dimension to the dead-letter topic; see changelog.Options.
type deadLetterFunc func(ctx context.Context, dimension string, rec *kgo.Record, class, message string) error

// deadLetters makes the writer for records of dimensions that can't be read; nil when there is no dead-letter topic.
func (a *app) deadLetters(instance string, open *closers) (deadLetterFunc, error) {
	topic := a.cfg.DeadLetter.Topic
	if topic == "" || len(a.dimensions) == 0 {
		return nil, nil
	}
	letters, err := pipeline.NewDeadLetters(a.clientFor("dead_letters"), topic, instance, int(a.cfg.Output.MaxRecordSize))
	if err != nil {
		return nil, err
	}
	open.add(func() error { letters.Close(); return nil })
	client, err := kgo.NewClient(a.clientFor("admin")...)
	if err != nil {
		return nil, fmt.Errorf("make admin client: %w", err)
	}
	open.add(func() error { client.Close(); return nil })
	write := func(ctx context.Context, dimension string, rec *kgo.Record, class, message string) error {
		err := letters.Dimension(ctx, dimension, rec, class, message)
		if err == nil {
			a.facts.DimensionLetter(class)
		}
		return err
	}
	return afterOnce(write, func(ctx context.Context) error {
		return ensureTopic(ctx, kadm.NewClient(client), topic, a.cfg.Kafka.CreateTopics)
	}), nil
}

// afterOnce makes prepare succeed once before the first letter is written. Letters of a first load come before the pipeline, which creates the topics that
// it writes, and hold it back.
func afterOnce(write deadLetterFunc, prepare func(context.Context) error) deadLetterFunc {
	var mu sync.Mutex
	done := false // under mu
	once := func(ctx context.Context) error {
		mu.Lock()
		defer mu.Unlock()
		if done {
			return nil
		}
		err := prepare(ctx)
		done = err == nil
		return err
	}
	return func(ctx context.Context, dimension string, rec *kgo.Record, class, message string) error {
		if err := once(ctx); err != nil {
			return err
		}
		return write(ctx, dimension, rec, class, message)
	}
}

// ensureTopic creates a missing topic with the broker's defaults, or says that it is missing where it must not.
func ensureTopic(ctx context.Context, admin *kadm.Client, topic string, create bool) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	topics, err := admin.ListTopics(ctx, topic)
	if err != nil {
		return fmt.Errorf("look for dead-letter topic %s: %w", topic, err)
	}
	err = topics[topic].Err
	switch {
	case err == nil:
		return nil
	case !errors.Is(err, kerr.UnknownTopicOrPartition):
		return fmt.Errorf("look for dead-letter topic %s: %w", topic, err)
	case !create:
		return fmt.Errorf("dead-letter topic %s does not exist: create it, or set kafka.create_topics: true", topic)
	}
	if _, err := admin.CreateTopic(ctx, -1, -1, nil, topic); err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
		return fmt.Errorf("create dead-letter topic %s: %w", topic, err)
	}
	return nil
}
