package config

import "time"

// Values of the keys that choose one of several ways. They are plain strings in
// the tree, spelled as in the file.
const (
	OnErrorDeadLetter = "dead_letter"
	OnErrorSkip       = "skip"
	OnErrorFail       = "fail"

	OnGapFail     = "fail"
	OnGapContinue = "continue"

	ExactlyOnce = "exactly_once"
	AtLeastOnce = "at_least_once"

	OnTimeoutFail    = "fail"
	OnTimeoutProceed = "proceed"

	PartitionKey   = "key"
	PartitionInput = "input"
)

// Config is the whole configuration: every key of the product, with its default
// where the file and the environment leave it out. It does not change after
// [Load] and may be read by many goroutines.
type Config struct {
	Kafka      Kafka       `koanf:"kafka"`
	Input      Input       `koanf:"input"`
	Dimensions []Dimension `koanf:"dimensions" example:"- {name: customer, topic: customer, primary_key: [id]}"`
	Lookups    []Lookup    `koanf:"lookups" example:"- {dimension: customer, on: {id: customer_id}, select: [name]}"`
	Output     Output      `koanf:"output"`
	DeadLetter DeadLetter  `koanf:"dead_letter"`
	Processing Processing  `koanf:"processing"`
	Store      Store       `koanf:"store"`
	Admin      Admin       `koanf:"admin"`
	Log        Log         `koanf:"log"`

	places places
}

// Kafka is how the brokers are reached.
type Kafka struct {
	// Brokers are host:port addresses, at least one.
	Brokers      []string `koanf:"brokers" need:"yes" check:"address" example:"[localhost:9092]"`
	ClientID     string   `koanf:"client_id" default:"enricher" check:"text"`
	Rack         string   `koanf:"rack" check:"text"`
	CreateTopics bool     `koanf:"create_topics"`
	TLS          TLS      `koanf:"tls"`
	SASL         SASL     `koanf:"sasl"`
}

// TLS is the encryption of the connections to the brokers. The files are known to
// be readable, their content is not looked at.
type TLS struct {
	Enabled            bool   `koanf:"enabled"`
	CAFile             string `koanf:"ca_file"`
	CertFile           string `koanf:"cert_file"`
	KeyFile            string `koanf:"key_file"`
	ServerName         string `koanf:"server_name"`
	InsecureSkipVerify bool   `koanf:"insecure_skip_verify"`
}

// SASL is how the service says who it is.
type SASL struct {
	// Mechanism is empty (none), PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER or
	// AWS_MSK_IAM.
	Mechanism string `koanf:"mechanism" enum:"|PLAIN|SCRAM-SHA-256|SCRAM-SHA-512|OAUTHBEARER|AWS_MSK_IAM"`
	Username  string `koanf:"username"`
	// Password is also what PasswordFile holds, without the newline at its end.
	Password     Secret `koanf:"password"`
	PasswordFile string `koanf:"password_file"`
	TokenFile    string `koanf:"token_file"`
}

// Input is where the facts come from.
type Input struct {
	Topics []string `koanf:"topics" need:"yes" check:"topic" example:"[orders]"`
	Group  string   `koanf:"group" need:"yes" check:"group" example:"orders-enricher"`
	// InstanceID is empty when the id that is kept in the store directory counts.
	InstanceID     string        `koanf:"instance_id" check:"instance"`
	SessionTimeout time.Duration `koanf:"session_timeout" default:"45s" min:"1ms" max:"596h"`
	Start          Start         `koanf:"start" default:"earliest"`
	OnGap          string        `koanf:"on_gap" default:"fail" enum:"fail|continue"`
	Format         string        `koanf:"format" default:"json"`
	// OnError is as written; what holds is [Config.OnError] of it.
	OnError string `koanf:"on_error" default:"dead_letter" enum:"dead_letter|skip|fail"`
}

// Dimension is a table that facts look rows up in.
type Dimension struct {
	// Name is also the name of a folder and a metric label.
	Name         string  `koanf:"name" need:"yes" check:"dimension" example:"customer"`
	Topic        string  `koanf:"topic" check:"topic"`
	TopicPattern string  `koanf:"topic_pattern" check:"pattern"`
	Format       string  `koanf:"format" default:"json"`
	KeyFormat    string  `koanf:"key_format" default:"auto" enum:"auto|json|string"`
	Columns      Columns `koanf:"columns" example:"{id: int, name: string}"`
	// PrimaryKey has at least one column, each once.
	PrimaryKey []string `koanf:"primary_key" need:"yes" check:"text" example:"[id]"`
	// BucketKey is a prefix of the primary key without the partition columns.
	BucketKey []string `koanf:"bucket_key" check:"text" example:"[id]"`
	// PartitionBy is a subset of the primary key, in its own order.
	PartitionBy   []string      `koanf:"partition_by" check:"text" example:"[dt]"`
	AutoPartition AutoPartition `koanf:"auto_partition"`
	// Indexes are sets of columns, none of them twice.
	Indexes [][]string `koanf:"indexes" check:"text" example:"[[nation]]"`
	// Version is offset, timestamp or column:NAME.
	Version           string        `koanf:"version" default:"offset" check:"version"`
	Store             string        `koanf:"store" default:"badger" enum:"badger|memory"`
	CacheKeys         CacheKeys     `koanf:"cache_keys" default:"auto"`
	Refresh           Refresh       `koanf:"refresh"`
	DiscoveryInterval time.Duration `koanf:"discovery_interval" default:"10s" min:"1ms"`
	// OnError is as written; what holds is [Config.OnError] of it.
	OnError       string `koanf:"on_error" default:"dead_letter" enum:"dead_letter|skip|fail"`
	AutoIncrement string `koanf:"auto_increment"`
}

// AutoPartition is the retention of a dimension that is partitioned by time.
type AutoPartition struct {
	Enabled   bool   `koanf:"enabled"`
	Column    string `koanf:"column"`
	TimeUnit  string `koanf:"time_unit" default:"day" enum:"hour|day|month|quarter|year"`
	Format    string `koanf:"format"`
	Retention int    `koanf:"retention" default:"7" min:"1"`
	TimeZone  string `koanf:"time_zone" default:"UTC" check:"zone"`
}

// Refresh is when changes of a dimension become visible.
type Refresh struct {
	Mode       string        `koanf:"mode" default:"async" enum:"async|sync"`
	Interval   time.Duration `koanf:"interval" default:"10s"`
	MaxPending int           `koanf:"max_pending" default:"10000" min:"1"`
}

// Lookup is one step of the enrichment.
type Lookup struct {
	// Dimension is the name of one of the dimensions.
	Dimension string `koanf:"dimension" need:"yes" check:"text" example:"customer"`
	// On is in the order of the file. It has at least one condition, unless Partitions
	// is set: then the partition columns may be all that the key consists of.
	On         Conditions `koanf:"on" example:"{id: customer_id}"`
	Join       string     `koanf:"join" default:"left" enum:"left|inner"`
	Select     Select     `koanf:"select" need:"yes" example:"{customer_name: name}"`
	Into       string     `koanf:"into" check:"text"`
	Where      Constants  `koanf:"where" example:"{segment: BUILDING}"`
	Rows       string     `koanf:"rows" default:"each" enum:"each|array|first"`
	Partitions string     `koanf:"partitions" enum:"|latest|latest_two"`
	OnConflict string     `koanf:"on_conflict" default:"fail" enum:"fail|overwrite|keep"`

	Async             bool  `koanf:"async" default:"true"`
	Retry             Retry `koanf:"retry"`
	InsertIfNotExists bool  `koanf:"insert_if_not_exists"`
}

// Retry is how a miss is looked up again.
type Retry struct {
	Delay       time.Duration `koanf:"delay" default:"1s" min:"1ms"`
	MaxAttempts int           `koanf:"max_attempts" default:"0"`
}

// Output is where the enriched records go.
type Output struct {
	Topic  string `koanf:"topic" need:"yes" check:"topic" example:"orders_enriched"`
	Format string `koanf:"format" default:"json"`
	// Select is the projection in the order of the file; empty means the fact with the
	// added fields.
	Select        Projections `koanf:"select" example:"{id: order_id}"`
	Partition     string      `koanf:"partition" default:"key" enum:"key|input"`
	Compression   string      `koanf:"compression" default:"snappy" enum:"none|gzip|snappy|lz4|zstd"`
	MaxRecordSize Size        `koanf:"max_record_size" default:"1MiB" min:"1B" max:"1GiB"`
}

// DeadLetter is where failed records go.
type DeadLetter struct {
	// Topic is empty when dead letters are off.
	Topic string `koanf:"topic" check:"topic"`
	// MaxRate is a share from 0 to 1; 0 means no limit.
	MaxRate float64 `koanf:"max_rate" default:"0" max:"1"`
}

// Processing is how facts are taken through.
type Processing struct {
	Delivery       string        `koanf:"delivery" default:"exactly_once" enum:"exactly_once|at_least_once"`
	Ordering       string        `koanf:"ordering" default:"ordered" enum:"ordered|key_ordered|unordered"`
	Capacity       int           `koanf:"capacity" default:"10000" min:"1"`
	CommitInterval time.Duration `koanf:"commit_interval" default:"100ms" min:"1ms"`
	// TransactionTimeout is at least three times CommitInterval.
	TransactionTimeout time.Duration `koanf:"transaction_timeout" default:"10s" min:"1ms" max:"596h"`
	Warmup             Warmup        `koanf:"warmup"`
	MaxStaleness       time.Duration `koanf:"max_staleness" default:"0s"`
	OnStale            string        `koanf:"on_stale" default:"hold" enum:"hold|serve|fail"`
	ShutdownGrace      time.Duration `koanf:"shutdown_grace" default:"30s"`
}

// Warmup is how long the first load of the dimensions may take.
type Warmup struct {
	// Timeout is 0 when there is no limit.
	Timeout   time.Duration `koanf:"timeout" default:"0s"`
	OnTimeout string        `koanf:"on_timeout" default:"fail" enum:"fail|proceed"`
}

// Store is the local cache of the dimensions.
type Store struct {
	Dir         string `koanf:"dir" default:"./enricher-data" check:"folder"`
	Memory      Size   `koanf:"memory" default:"512MiB" min:"1MiB"`
	MinFreeDisk Size   `koanf:"min_free_disk" default:"1GiB"`
	// MaxDisk is 0 when there is no limit.
	MaxDisk     Size   `koanf:"max_disk" default:"0"`
	Compression string `koanf:"compression" default:"none" enum:"none|snappy|zstd"`
}

// Admin is the HTTP server for health, metrics and status.
type Admin struct {
	// Listen is host:port; without a host on all interfaces.
	Listen    string   `koanf:"listen" default:"127.0.0.1:8080" check:"listen"`
	TokenFile string   `koanf:"token_file"`
	TLS       AdminTLS `koanf:"tls"`
	Pprof     bool     `koanf:"pprof"`
}

// AdminTLS is the certificate of the admin server.
type AdminTLS struct {
	CertFile string `koanf:"cert_file"`
	KeyFile  string `koanf:"key_file"`
}

// Log is what the service writes to stderr.
type Log struct {
	Level  string `koanf:"level" default:"info" enum:"debug|info|warn|error"`
	Format string `koanf:"format" default:"auto" enum:"auto|text|json"`
}
