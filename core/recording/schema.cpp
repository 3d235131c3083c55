#include "core/recording/schema.h"

#include <fmt/core.h>

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
  void add(std::string name, const char* type, std::string note = {}) {
    lines_.push_back({std::move(name), type, std::move(note)});
  }
  // Called by describe().
  void layer(int, LayerColumn column) { add("layer", "INTEGER", column.note); }
  void size(int, Size, Column column) { integer(column); }
  void position(int, Column column) { integer(column); }
  void flag(bool, Column column) { integer(column); }
  void count_bytes(Column column, const auto&...) { integer(column); }
  void array(const auto&, Column column, Extent) { blob(column); }
  void bins(const auto&, Column column) { blob(column); }
  void bytes(const std::string&, Column column) { blob(column); }
  void experts(const SpecialisationFrame&) {}
  void nested(const auto&, const char*) {}
  void figures(const auto&, const auto& table) {
    for (std::size_t i = 0; i < table.size(); ++i) {
      const std::string bit = fmt::format("[{}]", i);
      add(table[i].column, "REAL", *table[i].note ? bit + ' ' + table[i].note : bit);
    }
    add("nan_mask", "INTEGER");
  }
  void name(auto, Column column, auto) { add(column.name, "TEXT", column.note); }
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
        line += "-- ";
      }
      for (const char c : lines_[i].note) {
        line += c;
        if (c == '\n') line += std::string(kNoteAt, ' ') + "-- ";
      }
      text += line + '\n';
    }
    return text;
  }

 private:
  void integer(Column column) { add(column.name, "INTEGER", column.note); }
  void blob(Column column) { add(column.name, "BLOB", column.note); }
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

constexpr const char* kMarker = R"sql(
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
  for (int p = 0; p < kNumPhases; ++p)
    columns.add(phase_key(static_cast<Phase>(p)) + "_ms", "REAL", p == 0 ? "time of the phases of the step" : "");
  return columns;
}

template <class Row>
std::string create_table() {
  constexpr const Table& table = kTable<Row>;
  ColumnLines columns;
  columns.add("id", "INTEGER PRIMARY KEY", table.id_note);
  columns.add("run", "INTEGER");
  columns.add("step", "INTEGER");
  if constexpr (table.before.name != nullptr) columns.add(table.before.name, "INTEGER", table.before.note);
  const Row row;
  describe(row, columns);
  if constexpr (table.after.name != nullptr) columns.add(table.after.name, "TEXT", table.after.note);
  return create_table(table.name, table.note, columns);
}

template <class... Rows>
std::string create_tables(std::tuple<Rows...>*) {
  return (create_table<Rows>() + ...);
}

}  // namespace

std::string schema() {
  return kFileAndRun + create_table("frame", "a training step", frame_columns()) +
         create_tables(static_cast<FrameRowTypes*>(nullptr)) + kMarker;
}

}  // namespace moescope
