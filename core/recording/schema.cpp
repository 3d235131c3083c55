#include "core/recording/schema.h"

#include <algorithm>
#include <vector>

#include "core/frame/describe.h"

namespace moescope {
namespace {

constexpr std::size_t kTypeAt = 18, kNoteAt = 33;  // positions within a line of the schema

void fill_up(std::string& line, std::size_t length, std::size_t at_least) {
  line.append(std::max(length - std::min(length, line.size()), at_least), ' ');
}

// Visitor of describe() that collects a line of the schema for each column of a table.
class ColumnLines {
 public:
  void add(const char* name, const char* type, std::string note = {}) {
    lines_.push_back({name, type, std::move(note)});
  }
  // Called by describe().
  void layer(int, LayerColumn column) { add("layer", "INTEGER", column.note); }
  template <class Frame, std::size_t N>
  void figures(const Frame&, const std::array<FrameFigure<Frame>, N>& table) {
    for (std::size_t i = 0; i < N; ++i) {
      const std::string bit = "[" + std::to_string(i) + "]";
      add(table[i].column, "REAL", *table[i].note ? bit + ' ' + table[i].note : bit);
    }
    add("nan_mask", "INTEGER");
  }
  template <class T>
  void by_expert(const std::vector<T>&, Column column) {
    add(column.name, "BLOB", column.note);
  }
  template <class Bins>
  void bins(const Bins&, Column column) {
    add(column.name, "BLOB", column.note);
  }
  template <class Enum>
  void name(Enum, Column column, Names<Enum>) {
    add(column.name, "TEXT", column.note);
  }
  void text(const std::string&, Column column) { add(column.name, "TEXT", column.note); }
  void gemm(Gemm) {
    add("gemm_class", "TEXT", "'experts' (routed), 'attention', ... as the keys in [precision]");
    add("weight", "TEXT", "'w1', 'w2', 'w3'; of other classes 'wq', 'wkv_b', 'gate', 'output', ... too");
  }
  void scales(const std::array<std::uint32_t, 256>&) {
    add("first_byte", "INTEGER", "exponent + 127 (in MX the E8M0 byte) of the scales in the first count");
    add("blocks", "BLOB", "uint32 [n]: blocks with scale byte first_byte, first_byte + 1, ...");
  }

  std::string text() const {
    std::string text;
    for (std::size_t i = 0; i < lines_.size(); ++i) {
      std::string line = "  " + lines_[i].name;
      fill_up(line, kTypeAt, 1);
      line += lines_[i].type;
      if (i + 1 < lines_.size()) line += ',';
      if (!lines_[i].note.empty()) {
        fill_up(line, kNoteAt, 2);
        line += "-- " + lines_[i].note;
      }
      text += line + '\n';
    }
    return text;
  }

 private:
  struct Line {
    std::string name, type, note;
  };
  std::vector<Line> lines_;
};

constexpr const char* kFileAndRun = R"sql(
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
  domains         TEXT,          -- JSON array of the names of the data's domains
  kernels         TEXT           -- kernels that computed the run; they, config, seed and data decide its bits:
                                 -- 'OpenBLAS 0.3.21 SkylakeX, 16-lane-tiled loops, own tiles amx'; empty: not known
);

)sql";

constexpr const char* kVolume = R"sql(
CREATE TABLE volume (            -- token copies between ranks in one layer's dispatch; combine is the transpose
  id              INTEGER PRIMARY KEY,  -- id of the router row
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

)sql";

constexpr const char* kOthers = R"sql(
CREATE TABLE specialisation (    -- tokens of one MoE layer by expert, since the row before
  id              INTEGER PRIMARY KEY,  -- (frame id << 16) + position in the frame
  run             INTEGER,
  step            INTEGER,
  layer           INTEGER,
  domain_experts  BLOB,          -- uint32 [D, E] slots by domain (run.domains) and expert
  together        BLOB,          -- uint32 [E, E] tokens that chose both; on the diagonal: tokens of the expert; or empty
  byte_experts    BLOB,          -- uint32 [256, E] slots by the token's byte and expert; or empty
  weight_norm     BLOB,          -- float32 [E] norm of the expert's weights; empty: not known
  weight_sqnr     BLOB,          -- float32 [E] dB, of the weights in the run's format; NaN: not quantized
  bias_for_share  BLOB,          -- float32 [E, 33] quantiles over the step's tokens of cutoff - score, at the
                                 -- shares of core/frame/specialisation.h; or empty
  gradient_norm   BLOB,          -- float32 [E] norm of the gradient of the expert's weights in the step; or empty
  update_norm     BLOB           -- float32 [E] norm of the change of the expert's weights; or empty
);

CREATE TABLE text (              -- a text of T bytes and how it was routed; the bytes of a token have its routing
  id              INTEGER PRIMARY KEY,  -- (frame id << 16) + position in the frame
  run             INTEGER,
  step            INTEGER,
  kind            TEXT,          -- 'probe', 'sample', 'batch'
  text            BLOB,          -- [T]
  prompt          INTEGER,       -- length of a sample's prompt, bytes
  domain          TEXT,          -- domain of a passage of the data
  loss            BLOB           -- float32 [T], nats; NaN: no prediction
);

CREATE TABLE text_layer (        -- one MoE layer's routing of a text
  id              INTEGER PRIMARY KEY,  -- (frame id << 16) + position among the layers of all texts of the frame
  run             INTEGER,
  step            INTEGER,
  position        INTEGER,       -- position of the text in its frame
  layer           INTEGER,
  top_k           INTEGER,       -- K
  experts         BLOB,          -- uint16 [T, K], best biased score first
  scores          BLOB,          -- float32 [T, K], before bias
  margin          BLOB           -- float32 [T]
);

CREATE TABLE wire (              -- bytes that the all-to-alls of a step moved between processes
  id              INTEGER PRIMARY KEY,  -- frame id << 16
  run             INTEGER,
  step            INTEGER,
  ranks           INTEGER,       -- R processes
  over_nodes      INTEGER,       -- 1: hierarchical, by way of nodes; 0: flat
  sent_bytes      BLOB,          -- uint64 [R, R] source, destination, all layers, forward and backward
  all_to_all_ms   BLOB           -- float32 [R], waiting included
);

CREATE TABLE marker (            -- a live change, a note or an event, before the step it names
  id              INTEGER PRIMARY KEY,
  run             INTEGER,
  step            INTEGER,
  kind            TEXT,          -- 'change', 'note' (at most one a step), 'event'
  text            TEXT,          -- of a change: 'router.bias_update_rate 0.001 -> 0.01'
  key             TEXT,          -- of a change: the setting, as in run.config_toml: 'router.bias_update_rate'; else ''
  value           TEXT           -- its new value in full: '0.01', a text without quotes
);
)sql";

std::string create_table(const char* name, const char* note, const ColumnLines& columns) {
  std::string line = std::string("CREATE TABLE ") + name + " (";
  fill_up(line, kNoteAt, 2);
  return line + "-- " + note + '\n' + columns.text() + ");\n\n";
}

ColumnLines frame_columns() {
  ColumnLines columns;
  columns.add("id", "INTEGER PRIMARY KEY");
  columns.add("run", "INTEGER");
  columns.add("step", "INTEGER", "from 0");
  columns.add("wall_s", "REAL", "seconds since the run's first step");
  columns.add("tokens", "INTEGER", "since the first step, including this step");
  columns.figures(TelemetryFrame(), kFrameFigures);
  columns.add("data_ms", "REAL", "time of the phases of the step");
  for (const char* phase : {"attention_ms", "router_ms", "dispatch_ms", "experts_ms", "combine_ms", "dense_ffn_ms",
                            "head_ms", "optimizer_ms", "telemetry_ms", "other_ms"})
    columns.add(phase, "REAL");
  return columns;
}

template <class Row>
ColumnLines row_columns() {
  ColumnLines columns;
  columns.add("id", "INTEGER PRIMARY KEY", "(frame id << 16) + position in the frame");
  columns.add("run", "INTEGER");
  columns.add("step", "INTEGER");
  const Row row;
  describe(row, columns);
  return columns;
}

ColumnLines flip_columns() {
  ColumnLines columns = row_columns<FlipFrame>();
  columns.add("reference", "TEXT", "'run 0', or 'fp32': a pass in FP32 with the run's own weights");
  return columns;
}

}  // namespace

std::string schema() {
  return kFileAndRun + create_table("frame", "a training step", frame_columns()) +
         create_table("router", "router of one MoE layer at a step; formulas: core/frame/router_stats.h",
                      row_columns<RouterFrame>()) +
         kVolume +
         create_table("quant", "one quantized operand of one GEMM, all routed experts of the layer together",
                      row_columns<QuantFrame>()) +
         create_table("flip", "one MoE layer's tokens that chose another set of experts than in `reference`",
                      flip_columns()) +
         create_table("gradient", "a group of gradients against those of an FP32 pass on the same weights and batch",
                      row_columns<GradientFrame>()) +
         create_table("router_rounding", "one rounding to BF16 alone in the router of one MoE layer",
                      row_columns<RouterRoundingFrame>()) +
         kOthers;
}

}  // namespace moescope
