// Recordings of every format: which columns the newest has, and that older ones still open.
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "core/frame/change_marker.h"
#include "core/io/sqlite.h"
#include "core/recording/schema.h"
#include "tests/support/recording_file.h"

namespace moescope {
namespace {

// What programs of before have written and others read: a column more needs a new format.
TEST(RecordingFormats, FormatElevenHasTheseColumns) {
  const std::string path = temporary_file("columns_of_nine.moescope");
  write_run(path, 1);
  Connection connection(path, SQLITE_OPEN_READONLY);
  const auto columns = [&](const std::string& table) {
    std::string names;
    Statement rows(connection, "SELECT name || ' ' || type FROM pragma_table_info('" + table + "')");
    while (rows.next()) names += (names.empty() ? "" : ", ") + rows.get_text();
    return names;
  };
  ASSERT_EQ(kFormatVersion, 11);
  EXPECT_EQ(columns("frame"),
            "id INTEGER, run INTEGER, step INTEGER, wall_s REAL, tokens INTEGER, ce_loss REAL, aux_loss REAL, z_loss "
            "REAL, grad_norm REAL, lr REAL, tokens_per_s REAL, val_loss REAL, max_logit REAL, nan_mask INTEGER, "
            "data_ms REAL, "
            "attention_ms REAL, "
            "router_ms REAL, dispatch_ms REAL, experts_ms REAL, combine_ms REAL, dense_ffn_ms REAL, head_ms REAL, "
            "optimizer_ms REAL, telemetry_ms REAL, other_ms REAL");
  EXPECT_EQ(
      columns("router"),
      "id INTEGER, run INTEGER, step INTEGER, layer INTEGER, max_vio REAL, max_vio_window REAL, cv REAL, "
      "entropy_norm REAL, dead_fraction REAL, score_entropy REAL, margin REAL, aux_loss REAL, z_loss REAL, "
      "padding_fraction REAL, dropped_fraction REAL, mutual_information REAL, predicted_share REAL, nan_mask INTEGER, "
      "tokens_per_expert BLOB, expert_bias BLOB, score_mass BLOB, gate_mass BLOB, score_chosen BLOB, "
      "score_rejected BLOB, margin_tokens BLOB");
  EXPECT_EQ(columns("quant"),
            "id INTEGER, run INTEGER, step INTEGER, layer INTEGER, weight TEXT, operand TEXT, direction TEXT, format "
            "TEXT, amax REAL, sqnr_db REAL, relative_l2 REAL, cosine REAL, underflow REAL, clipped REAL, "
            "clipped_blocks REAL, crest REAL, nan_mask INTEGER, first_byte INTEGER, blocks BLOB, gemm_class TEXT");
  EXPECT_EQ(columns("flip"),
            "id INTEGER, run INTEGER, step INTEGER, layer INTEGER, flip_rate REAL, overlap REAL, nan_mask INTEGER, "
            "margin_tokens "
            "BLOB, margin_flipped BLOB, reference TEXT");
  EXPECT_EQ(columns("gradient"),
            "id INTEGER, run INTEGER, step INTEGER, layer INTEGER, tensors TEXT, snr_db REAL, cosine REAL, nan_mask "
            "INTEGER");
  EXPECT_EQ(columns("specialisation"),
            "id INTEGER, run INTEGER, step INTEGER, layer INTEGER, domain_experts BLOB, together BLOB, byte_experts "
            "BLOB, weight_norm BLOB, weight_sqnr BLOB, bias_for_share BLOB");
  EXPECT_EQ(columns("marker"), "id INTEGER, run INTEGER, step INTEGER, kind TEXT, text TEXT, key TEXT, value TEXT");
}

// Loads are what most of a large run's file consists of. Formats before the eighth have them as uint32 always.
TEST(RecordingFormats, LoadsAreOfTheNarrowestTypeThatFits) {
  const std::string path = temporary_file("narrow_loads.moescope");
  const std::vector<std::vector<std::uint32_t>> loads = {{0, 65535}, {1, 65536}};
  {
    RecordingWriter writer(path);
    writer.add_run(sample_info({.moe_layers = 1, .n_experts = 2}));
    std::vector<FramePtr> frames;
    for (std::size_t step = 0; step < loads.size(); ++step) {
      TelemetryFrame frame;
      frame.step = static_cast<std::int64_t>(step);
      frame.routers.emplace_back().layer = 1;
      frame.routers[0].tokens_per_expert = loads[step];
      frames.push_back(std::make_shared<TelemetryFrame>(std::move(frame)));
    }
    writer.write(frames);
  }
  Connection file(path, SQLITE_OPEN_READONLY);
  EXPECT_EQ(file.integer("SELECT length(tokens_per_expert) FROM router WHERE step = 0"), 4);
  EXPECT_EQ(file.integer("SELECT length(tokens_per_expert) FROM router WHERE step = 1"), 8);
  const auto history = RecordingReader(path).load(0);
  for (std::size_t step = 0; step < loads.size(); ++step)
    EXPECT_EQ(history->frame_at(static_cast<std::int64_t>(step))->routers[0].tokens_per_expert, loads[step]);
}

TEST(RecordingFormats, FilesOfTheNinthFormatHaveNoBiasesForShares) {
  const std::string path = temporary_file("ninth_format.moescope");
  write_run(path, 4, true);
  const auto newest = [&] { return RecordingReader(path).load(0)->specialisation_frame_at(3)->specialisation[0]; };
  EXPECT_FALSE(newest().bias_for_share_EQ.empty());
  Connection(path, SQLITE_OPEN_READWRITE)
      .execute(
          "CREATE TABLE old AS SELECT id, run, step, layer, domain_experts, together, byte_experts, weight_norm, "
          "weight_sqnr FROM specialisation; DROP TABLE specialisation; ALTER TABLE old RENAME TO specialisation; "
          "ALTER TABLE router DROP COLUMN predicted_share; ALTER TABLE frame DROP COLUMN max_logit; PRAGMA "
          "user_version = 9");
  EXPECT_TRUE(newest().bias_for_share_EQ.empty());
  EXPECT_FALSE(newest().weight_norm_E.empty());
}

TEST(RecordingFormats, FilesOfTheSixthFormatHaveNoValidationLoss) {
  const std::string path = temporary_file("sixth_format.moescope");
  write_run(path, 4);
  Connection(path, SQLITE_OPEN_READWRITE)
      .execute(
          "ALTER TABLE router DROP COLUMN predicted_share; ALTER TABLE frame DROP COLUMN max_logit; ALTER TABLE frame "
          "DROP COLUMN val_loss; ALTER TABLE flip DROP "
          "COLUMN overlap; PRAGMA user_version = 6");
  const auto history = RecordingReader(path).load(0);
  EXPECT_EQ(history->steps(), (StepRange{0, 3}));
  EXPECT_FALSE(is_missing(history->value_at(Metric::ce_loss, kWholeRun, 3)));
  EXPECT_TRUE(is_missing(history->value_at(Metric::val_loss, kWholeRun, 3)));
}

// The file as version 3 would have written it.
void make_third_format(Connection& file) {
  for (const char* table : {"specialisation", "text", "text_layer"})
    file.execute((std::string("DROP TABLE ") + table).c_str());
  const auto keep_columns = [&](const std::string& table, const std::string& columns) {
    file.execute(("CREATE TABLE old AS SELECT " + columns + " FROM " + table).c_str());
    file.execute(("DROP TABLE " + table).c_str());
    file.execute(("ALTER TABLE old RENAME TO " + table).c_str());
  };
  keep_columns("router",
               "id, run, step, layer, max_vio, max_vio_window, cv, entropy_norm, dead_fraction, score_entropy, margin, "
               "aux_loss, z_loss, padding_fraction, dropped_fraction, nan_mask, tokens_per_expert, expert_bias, "
               "score_mass, gate_mass");
  keep_columns("run",
               "run, name, source, config_toml, n_layers, moe_layers, n_experts, top_k, tokens_per_step, ranks, "
               "ranks_per_node, dim, window");
  file.execute("DELETE FROM flip WHERE reference = 'fp32'");
  keep_columns("flip", "id, run, step, layer, flip_rate, nan_mask, margin_tokens, margin_flipped");
  file.execute(
      "ALTER TABLE frame DROP COLUMN max_logit; ALTER TABLE frame DROP "
      "COLUMN val_loss; PRAGMA user_version = 3");
}

TEST(RecordingFormats, FilesOfTheFourthFormatOpenWithoutKernels) {
  const std::string path = temporary_file("fourth_format.moescope");
  write_run(path, 4);
  Connection(path, SQLITE_OPEN_READWRITE)
      .execute(
          "ALTER TABLE router DROP COLUMN predicted_share; ALTER TABLE frame DROP COLUMN max_logit; ALTER TABLE frame "
          "DROP COLUMN val_loss; ALTER TABLE flip DROP "
          "COLUMN overlap; "
          "ALTER TABLE run DROP COLUMN kernels; PRAGMA user_version = 4");
  const RecordingReader reader(path);
  EXPECT_EQ(reader.runs()[0].kernels, "");
  EXPECT_EQ(reader.runs()[0].domains, sample_info({}).domains);
  EXPECT_EQ(reader.load(0)->steps(), (StepRange{0, 3}));
}

TEST(RecordingFormats, LiveChangesKeepKeyAndValueInEveryFormat) {
  const std::string path = temporary_file("changes.moescope");
  const std::vector<Marker> wanted = {change_marker(0, 1, "data.mixture", "", "code=1", true),
                                      change_marker(0, 2, "router.killed_experts", "1:5", ""),
                                      change_marker(0, 3, "router.aux_mode", "batch", "none"),
                                      {0, 3, "event", "router.top_k 1 -> 2"}};
  {
    RecordingWriter writer(path);
    writer.add_run(sample_info({}));
    for (const Marker& marker : wanted) writer.write(marker);
  }
  const auto expect_markers = [&] {
    const auto markers = RecordingReader(path).markers(0);
    ASSERT_EQ(markers.size(), wanted.size());
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      EXPECT_EQ(markers[i].text, wanted[i].text);
      EXPECT_EQ(markers[i].key, wanted[i].key);
      EXPECT_EQ(markers[i].value, wanted[i].value);
    }
  };
  expect_markers();
  Connection(path, SQLITE_OPEN_READWRITE)
      .execute(
          "ALTER TABLE router DROP COLUMN predicted_share; ALTER TABLE frame DROP COLUMN max_logit; ALTER TABLE frame "
          "DROP COLUMN val_loss; ALTER TABLE marker DROP "
          "COLUMN key; ALTER TABLE marker DROP COLUMN "
          "value; "
          "PRAGMA user_version = 5");
  expect_markers();
}

TEST(RecordingFormats, FilesOfTheThirdFormatStillOpen) {
  const std::string path = temporary_file("third_format.moescope");
  write_run(path, 4);
  {
    Connection old(path, SQLITE_OPEN_READWRITE);
    make_third_format(old);
  }
  const RecordingReader reader(path);
  EXPECT_TRUE(reader.runs()[0].domains.empty());
  const auto history = reader.load(0);
  EXPECT_EQ(history->steps(), (StepRange{0, 3}));
  std::mt19937 rng(1);  // as write_run()
  TelemetryFrame wanted = sample_frame(0, {}, rng);
  wanted.val_loss = wanted.max_logit = kNoValue;
  for (RouterFrame& router : wanted.routers) {
    router.mutual_information = router.predicted_share = kNoValue;
    router.score_chosen = router.score_rejected = router.margin_tokens = {};
  }
  for (FlipFrame& flips : wanted.flips) flips.overlap = kNoValue;
  wanted.rounding_flips = {};
  expect_equal(*history->frame_at(0), wanted);
  EXPECT_EQ(history->specialisation_frame_at(3), nullptr);
  std::int64_t step = 3;
  EXPECT_EQ(history->text_at(TextKind::probe, step), nullptr);
}

TEST(RecordingFormats, FilesOfTheFirstFormatStillOpen) {
  const std::string path = temporary_file("first_format.moescope");
  write_run(path, 4);
  {
    Connection old(path, SQLITE_OPEN_READWRITE);
    make_third_format(old);
    old.execute("DROP TABLE flip");
    old.execute("DROP TABLE gradient");
    old.execute(
        "CREATE TABLE old_quant AS SELECT id, run, step, layer, weight, operand, direction, format, amax, sqnr_db, "
        "relative_l2, cosine, underflow, clipped, clipped_blocks, crest, nan_mask, first_byte, blocks FROM quant "
        "WHERE gemm_class = 'experts'");
    old.execute("DROP TABLE quant");
    old.execute("ALTER TABLE old_quant RENAME TO quant");
    old.execute("PRAGMA user_version = 1");
  }
  const auto history = RecordingReader(path).load(0);
  EXPECT_EQ(history->steps(), (StepRange{0, 3}));
  ASSERT_NE(history->quant_frame_at(3), nullptr);
  EXPECT_EQ(history->flip_frame_at(3), nullptr);
  EXPECT_EQ(history->gradient_frame_at(3), nullptr);
}

TEST(RecordingFormats, FlipsOfTheThirdFormatAreThoseAgainstRun0) {
  const std::string path = temporary_file("third_format_flips.moescope");
  write_run(path, 4);
  const auto written = RecordingReader(path).load(0)->flip_frame_at(3);
  ASSERT_NE(written, nullptr);
  ASSERT_FALSE(written->flips.empty());
  {
    Connection old(path, SQLITE_OPEN_READWRITE);
    make_third_format(old);
  }
  const auto history = RecordingReader(path).load(0);
  EXPECT_EQ(history->flip_frame_at(3)->flips.size(), written->flips.size());
  EXPECT_TRUE(history->gradient_frame_at(3)->rounding_flips.empty());
}

}  // namespace
}  // namespace moescope
