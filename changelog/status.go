package changelog

// Status is a dimension's state for /status; all of one moment.
type Status struct {
	Name             string         `json:"name"`
	Topic            string         `json:"topic"`
	Warm             bool           `json:"warm"`
	Ready            bool           `json:"ready"`
	Reasons          []string       `json:"reasons,omitempty"`     // why it is not ready
	WaitingFor       string         `json:"waiting_for,omitempty"` // what the start waits for, and the remedy
	TopicMissing     bool           `json:"topic_missing,omitempty"`
	Paused           string         `json:"paused,omitempty"` // why changes are not applied at the moment: disk | dead_letter
	LastError        string         `json:"last_error,omitempty"`
	LastErrorAt      string         `json:"last_error_at,omitempty"` // RFC 3339
	LoadReason       string         `json:"load_reason,omitempty"`   // why this start loads, or loaded, the dimension anew
	Progress         *Progress      `json:"progress,omitempty"`      // of the warm-up; absent once warm
	Rows             int64          `json:"rows"`
	Bytes            int64          `json:"bytes"` // on disk
	Partitions       int            `json:"partitions"`
	RecordsRead      int64          `json:"records_read"` // changelog records read by this process, transaction markers not counted
	Lag              int64          `json:"lag"`          // offsets between the positions and the ends last seen
	FreshnessSeconds *float64       `json:"freshness_seconds,omitempty"`
	Buckets          []BucketStatus `json:"buckets"`
}

// BucketStatus is one Kafka partition of the changelog.
type BucketStatus struct {
	Partition int32  `json:"partition"`
	Position  int64  `json:"position"` // next offset to apply
	End       int64  `json:"end"`      // last stable offset, as last seen
	Lag       int64  `json:"lag"`
	Warm      bool   `json:"warm"`
	ProvedAt  string `json:"proved_at,omitempty"` // RFC 3339: when it was last proved to be read to its end
	// OpenTransactionSeconds is how long the end has stood still below the high watermark: a producer holds a transaction open.
	OpenTransactionSeconds float64 `json:"open_transaction_seconds,omitempty"`
}
