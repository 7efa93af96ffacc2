package changelog

// Progress of a warm-up.
type Progress struct {
	Rows          int64   `json:"rows"`            // applied by this process
	Bytes         int64   `json:"bytes"`           // keys and values read by this process
	Ratio         float64 `json:"ratio"`           // 0..1 of the offsets between the logs' starts and the ends seen at start
	RowsPerSecond float64 `json:"rows_per_second"` // mean since the start
	SecondsLeft   float64 `json:"seconds_left"`    // at that pace; -1 when there is none yet
}
