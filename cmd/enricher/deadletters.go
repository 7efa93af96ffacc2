package main

import (
	"context"

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
	letters, err := pipeline.NewDeadLetters(a.clientFor("dead_letters"), topic, a.cfg.Kafka.CreateTopics, instance, int(a.cfg.Output.MaxRecordSize))
	if err != nil {
		return nil, err
	}
	open.add(func() error { letters.Close(); return nil })
	return func(ctx context.Context, dimension string, rec *kgo.Record, class, message string) error {
		err := letters.Dimension(ctx, dimension, rec, class, message)
		if err == nil {
			a.facts.DimensionLetter(class)
		}
		return err
	}, nil
}
