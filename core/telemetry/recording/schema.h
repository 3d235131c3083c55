// The recording's format: an SQLite 3 database in WAL mode, readable by sqlite3, pandas, DuckDB, ...
//
// The file's application_id is kApplicationId and its user_version kFormatVersion. A change that older programs cannot
// read raises the version; they refuse newer files. Version 2 added the tables flip and gradient, version 3 the weights
// beside the routed experts' to quant, version 4 the tables specialisation, text, text_layer and wire, the router's
// histograms and mutual_information, the names of the run's domains, and flips against FP32, version 5 the kernels that
// computed a run, version 6 key and value of a live change, which before had only the sentence in `text`. This program
// reads all six.
//
// Blobs are arrays, little-endian, without header: uint32 or float32 as said at the column, shape from `run`.
// NULL in a REAL column: no value was recorded, or, where the row's nan_mask says so, the value was NaN: bit i stands
// for the i-th of the row's columns marked [i].
//
// One row per step in `frame`, with id rising in the order of writing. Rows of all other tables but marker belong to
// frame id >> 16, so that rows of one frame lie together; run and step are repeated in them for reading
// without a join:
//   SELECT step, max_vio FROM router WHERE run = 0 AND layer = 1 ORDER BY step;
#pragma once

namespace moescope {

inline constexpr int kApplicationId = 0x4d6f4553;  // "MoES"
inline constexpr int kFormatVersion = 6;
inline constexpr int kOldestFormatVersion = 1;

// flip.reference
inline constexpr const char* kRun0Reference = "run 0";
inline constexpr const char* kFp32Reference = "fp32";

inline constexpr const char* kSchema = R"sql(
CREATE TABLE meta (              -- about the file: format_version, program, created (UTC), state: recording_file.h
  key             TEXT PRIMARY KEY,
  value           TEXT
) WITHOUT ROWID;

CREATE TABLE run (
  run             INTEGER PRIMARY KEY,  -- 0, 1, ... in the window A, B, ...
  name            TEXT,
  source          TEXT,          -- 'trained here' or the imported file
  config_toml     TEXT,          -- complete settings at the start; live changes are markers
  n_layers        INTEGER,       -- dense and MoE
  moe_layers      TEXT,          -- JSON array of layer indices
  n_experts       INTEGER,       -- E, routed
  top_k           INTEGER,       -- K, experts per token
  tokens_per_step INTEGER,       -- T
  ranks           INTEGER,       -- R, virtual ranks over which volumes are counted
  ranks_per_node  INTEGER,
  dim             INTEGER,       -- D, width of a token; its copy is 2 D bytes in BF16
  window          INTEGER,       -- steps of max_vio_window and dead_fraction
  domains         TEXT,          -- JSON array of the names of the data's domains; since version 4
  kernels         TEXT           -- that computed it, beside config, seed and data all that decides its bits:
                                 -- 'OpenBLAS 0.3.21 SkylakeX, x86-64-v4 loops'; empty: not known; since version 5
);

CREATE TABLE frame (             -- a training step
  id              INTEGER PRIMARY KEY,
  run             INTEGER,
  step            INTEGER,       -- from 0
  wall_s          REAL,          -- seconds since the run's first step
  tokens          INTEGER,       -- seen so far, this step included
  ce_loss         REAL,          -- [0] mean cross-entropy, nats per byte
  aux_loss        REAL,          -- [1] load-balance loss, with its coefficient
  z_loss          REAL,          -- [2] router z-loss, with its coefficient
  grad_norm       REAL,          -- [3] before clipping
  lr              REAL,          -- [4]
  tokens_per_s    REAL,          -- [5]
  nan_mask        INTEGER,
  data_ms         REAL,          -- where the step's time went
  attention_ms    REAL,
  router_ms       REAL,
  dispatch_ms     REAL,
  experts_ms      REAL,
  combine_ms      REAL,
  dense_ffn_ms    REAL,
  head_ms         REAL,
  optimizer_ms    REAL,
  telemetry_ms    REAL,
  other_ms        REAL
);

CREATE TABLE router (            -- router of one MoE layer at a step; formulas: core/telemetry/frame/router_stats.h
  id              INTEGER PRIMARY KEY,  -- (frame id << 16) + position in the frame
  run             INTEGER,
  step            INTEGER,
  layer           INTEGER,       -- among all layers
  max_vio         REAL,          -- [0] max_e u_e - 1
  max_vio_window  REAL,          -- [1] over the last `window` steps
  cv              REAL,          -- [2] standard deviation over mean
  entropy_norm    REAL,          -- [3] of the load, over ln E
  dead_fraction   REAL,          -- [4] experts without a token in the last `window` steps
  score_entropy   REAL,          -- [5] mean over tokens, nats
  margin          REAL,          -- [6] mean over tokens of K-th minus (K+1)-th biased score
  aux_loss        REAL,          -- [7]
  z_loss          REAL,          -- [8]
  padding_fraction REAL,         -- [9] rows added to multiples of 32, over T K
  dropped_fraction REAL,         -- [10] what-if at router.capacity_factor
  mutual_information REAL,       -- [11] entropy of the mean scores minus score_entropy, nats; since version 4
  nan_mask        INTEGER,
  tokens_per_expert BLOB,        -- uint32 [E]
  expert_bias     BLOB,          -- float32 [E], after the step's update
  score_mass      BLOB,          -- float32 [E], sums to 1
  gate_mass       BLOB,          -- float32 [E], sums to 1
  score_chosen    BLOB,          -- uint32 [40]: scores of chosen experts, bin b from 2^((b - 40) / 2), the first from 0
  score_rejected  BLOB,          -- uint32 [40]: of all others
  margin_tokens   BLOB           -- uint32 [40]: tokens by margin; all three since version 4
);

CREATE TABLE volume (            -- token copies between ranks in one layer's dispatch; combine is the transpose
  id              INTEGER PRIMARY KEY,  -- that of the router row
  run             INTEGER,
  step            INTEGER,
  layer           INTEGER,
  ranks           INTEGER,       -- R
  ranks_per_node  INTEGER,
  count_bytes     INTEGER,       -- 1, 2 or 4: the blobs are uint8, uint16 or uint32
  copies          BLOB,          -- [R, R] source, destination: standard all-to-all, a copy per chosen expert
  distinct_ranks  BLOB,          -- [R, R] a copy per destination rank
  distinct_nodes  BLOB           -- [R, N] a copy per destination node, own node counted
);

CREATE TABLE quant (             -- one quantized operand of one GEMM, all routed experts of the layer together
  id              INTEGER PRIMARY KEY,  -- (frame id << 16) + position in the frame
  run             INTEGER,
  step            INTEGER,
  layer           INTEGER,       -- -1: not of a layer
  weight          TEXT,          -- 'w1', 'w2', 'w3'; of other classes 'wq', 'wkv_b', 'gate', 'output', ... too
  operand         TEXT,          -- 'x', 'W', 'dY'
  direction       TEXT,          -- 'forward', 'dgrad', 'wgrad'
  format          TEXT,          -- 'mxfp8_e4m3_rceil', 'nvfp4', 'bf16'; of recordings before that 'e4m3', the element
  amax            REAL,          -- [0] largest absolute value
  sqnr_db         REAL,          -- [1] 9e999 when exact
  relative_l2     REAL,          -- [2]
  cosine          REAL,          -- [3]
  underflow       REAL,          -- [4] share of non-zero values that became zero
  clipped         REAL,          -- [5] share of values beyond the format's maximum
  clipped_blocks  REAL,          -- [6] share of blocks with such a value
  crest           REAL,          -- [7] mean over blocks of amax / rms
  nan_mask        INTEGER,
  first_byte      INTEGER,       -- exponent + 127 (in MX the E8M0 byte) of the scales in the first count
  blocks          BLOB,          -- uint32 [n]: blocks with scale byte first_byte, first_byte + 1, ...
  gemm_class      TEXT           -- 'experts' (routed), 'attention', ... as the keys in [precision]; since version 3
);

CREATE TABLE flip (              -- one MoE layer's tokens that chose another set of experts than in `reference`
  id              INTEGER PRIMARY KEY,  -- (frame id << 16) + position in the frame
  run             INTEGER,
  step            INTEGER,
  layer           INTEGER,
  flip_rate       REAL,          -- [0] share of the batch's tokens
  nan_mask        INTEGER,
  margin_tokens   BLOB,          -- uint32 [40]: tokens by its margin, bin b from 2^((b - 40) / 2), the first from 0
  margin_flipped  BLOB,          -- uint32 [40]: those of them that flipped
  reference       TEXT           -- 'run 0', or 'fp32': a pass in FP32 with the run's own weights; since version 4
);

CREATE TABLE gradient (          -- a group of gradients against those of an FP32 pass on the same weights and batch
  id              INTEGER PRIMARY KEY,  -- (frame id << 16) + position in the frame
  run             INTEGER,
  step            INTEGER,
  layer           INTEGER,       -- -1: not of a layer
  tensors         TEXT,          -- 'attention', 'router gate', 'routed experts', 'FFN', 'embedding', 'head', 'all'
  snr_db          REAL,          -- [0] 9e999 when equal
  cosine          REAL,          -- [1]
  nan_mask        INTEGER
);

CREATE TABLE specialisation (    -- who chose which expert in one MoE layer, since the row before; since version 4
  id              INTEGER PRIMARY KEY,  -- (frame id << 16) + position in the frame
  run             INTEGER,
  step            INTEGER,
  layer           INTEGER,
  domain_experts  BLOB,          -- uint32 [D, E] slots by domain (run.domains) and expert
  together        BLOB,          -- uint32 [E, E] tokens that chose both; on the diagonal those of the expert; or empty
  byte_experts    BLOB,          -- uint32 [256, E] slots by the token's byte and expert; or empty
  weight_norm     BLOB,          -- float32 [E] length of the expert's weights; empty: not known
  weight_sqnr     BLOB           -- float32 [E] dB, of the weights in the run's format; NaN: not quantized
);

CREATE TABLE text (              -- a text and how it was routed; a token is a byte; since version 4
  id              INTEGER PRIMARY KEY,  -- (frame id << 16) + position in the frame
  run             INTEGER,
  step            INTEGER,
  kind            TEXT,          -- 'probe', 'sample', 'batch'
  text            BLOB,          -- [T] bytes
  prompt          INTEGER,       -- of a sample: bytes that were given
  domain          TEXT,          -- of a passage of the data
  loss            BLOB           -- float32 [T], nats; NaN: no prediction
);

CREATE TABLE text_layer (        -- one MoE layer's routing of a text
  id              INTEGER PRIMARY KEY,  -- (frame id << 16) + position among the layers of all texts of the frame
  run             INTEGER,
  step            INTEGER,
  position        INTEGER,       -- of the text in its frame
  layer           INTEGER,
  top_k           INTEGER,       -- K
  experts         BLOB,          -- uint16 [T, K], best biased score first
  scores          BLOB,          -- float32 [T, K], before bias
  margin          BLOB           -- float32 [T]
);

CREATE TABLE wire (              -- what the all-to-alls of a step moved between processes; since version 4
  id              INTEGER PRIMARY KEY,  -- frame id << 16
  run             INTEGER,
  step            INTEGER,
  ranks           INTEGER,       -- R processes
  over_nodes      INTEGER,       -- 1: by way of nodes; 0: straight to the rank
  sent_bytes      BLOB,          -- uint64 [R, R] source, destination, all layers, forward and backward
  all_to_all_ms   BLOB           -- float32 [R], waiting included
);

CREATE TABLE marker (            -- a live change, a note or an event, pinned to the step before which it happened
  id              INTEGER PRIMARY KEY,
  run             INTEGER,
  step            INTEGER,
  kind            TEXT,          -- 'change', 'note' (at most one a step), 'event'
  text            TEXT,          -- of a change a sentence: 'router.bias_update_rate 0.001 -> 0.01'
  key             TEXT,          -- of a change: the setting, as in run.config_toml: 'router.bias_update_rate'; else ''
  value           TEXT           -- its new value in full: '0.01', a text without quotes; both since version 6
);
)sql";

}  // namespace moescope
