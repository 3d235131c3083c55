// The columns and types in the tables of a recording.
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "core/files/sqlite.h"
#include "core/frame/frame.h"
#include "core/logs/log_exports.h"
#include "core/recording/recording.h"
#include "core/recording/schema.h"
#include "tests/support/recording_file.h"
#include "tests/support/sample_frames.h"

namespace moescope {
namespace {

// Other programs read these tables: a new column needs a new version of the format.
TEST(RecordingFormats, FormatOneColumnsAreFixed) {
  const std::string path = temporary_file("columns.moescope");
  write_run(path, 1);
  Connection connection(path, SQLITE_OPEN_READONLY);
  const auto columns = [&](const std::string& table) {
    std::string names;
    Statement rows(connection, "SELECT name || ' ' || type FROM pragma_table_info('" + table + "')");
    while (rows.next()) names += (names.empty() ? "" : ", ") + rows.get_text();
    return names;
  };
  ASSERT_EQ(kFormatVersion, 1);
  EXPECT_EQ(columns("frame"),
            "id INTEGER, run INTEGER, step INTEGER, wall_s REAL, tokens INTEGER, ce_loss REAL, aux_loss REAL, z_loss "
            "REAL, grad_norm REAL, lr REAL, tokens_per_s REAL, val_loss REAL, max_logit REAL, fp32_kl REAL, "
            "fp32_k1 REAL, fp32_k3 REAL, fp32_ratio_beyond_2 REAL, fp32_any_layer_flipped REAL, nan_mask INTEGER, "
            "data_ms REAL, attention_ms REAL, "
            "router_ms REAL, dispatch_ms REAL, experts_ms REAL, combine_ms REAL, dense_ffn_ms REAL, head_ms REAL, "
            "optimizer_ms REAL, telemetry_ms REAL, other_ms REAL");
  EXPECT_EQ(columns("router"),
            "id INTEGER, run INTEGER, step INTEGER, layer INTEGER, max_vio REAL, max_vio_window REAL, cv REAL, "
            "entropy_norm REAL, dead_fraction REAL, score_entropy REAL, margin REAL, aux_loss REAL, z_loss REAL, "
            "padding_fraction REAL, dropped_fraction REAL, mutual_information REAL, predicted_share REAL, "
            "max_vio_microbatch REAL, max_vio_sequence REAL, nan_mask INTEGER, "
            "tokens_per_expert BLOB, expert_bias BLOB, score_mass BLOB, gate_mass BLOB, score_chosen BLOB, "
            "score_rejected BLOB, margin_tokens BLOB");
  EXPECT_EQ(columns("quant"),
            "id INTEGER, run INTEGER, step INTEGER, layer INTEGER, gemm_class TEXT, weight TEXT, operand TEXT, "
            "direction TEXT, format "
            "TEXT, amax REAL, sqnr_db REAL, relative_l2 REAL, cosine REAL, underflow REAL, clipped REAL, "
            "clipped_blocks REAL, crest REAL, nan_mask INTEGER, first_byte INTEGER, blocks BLOB");
  EXPECT_EQ(columns("flip"),
            "id INTEGER, run INTEGER, step INTEGER, layer INTEGER, flip_rate REAL, overlap REAL, nan_mask INTEGER, "
            "margin_tokens "
            "BLOB, margin_flipped BLOB, reference TEXT");
  EXPECT_EQ(columns("gradient"),
            "id INTEGER, run INTEGER, step INTEGER, layer INTEGER, tensors TEXT, snr_db REAL, cosine REAL, "
            "pinned_snr_db REAL, pinned_cosine REAL, nan_mask INTEGER");
  EXPECT_EQ(columns("router_rounding"),
            "id INTEGER, run INTEGER, step INTEGER, layer INTEGER, rounding TEXT, changed REAL, max_vio REAL, "
            "bias_values REAL, nan_mask INTEGER, margin_tokens BLOB, margin_flipped BLOB");
  EXPECT_EQ(columns("specialisation"),
            "id INTEGER, run INTEGER, step INTEGER, layer INTEGER, domain_experts BLOB, together BLOB, byte_experts "
            "BLOB, weight_norm BLOB, weight_sqnr BLOB, bias_for_share BLOB, gradient_norm BLOB, update_norm BLOB");
  EXPECT_EQ(columns("marker"), "id INTEGER, run INTEGER, step INTEGER, kind TEXT, text TEXT, key TEXT, value TEXT");
}

// Most of the file of a large run is loads.
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

TEST(RecordingFormats, LiveChangesKeepKeyAndValue) {
  const std::string path = temporary_file("changes.moescope");
  const std::vector<Marker> written = {change_marker(0, 1, "data.mixture", "", "code=1", true),
                                       change_marker(0, 2, "router.killed_experts", "1:5", ""),
                                       change_marker(0, 3, "router.aux_mode", "batch", "none"),
                                       {0, 3, "event", "router.top_k 1 -> 2"}};
  {
    RecordingWriter writer(path);
    writer.add_run(sample_info({}));
    for (const Marker& marker : written) writer.write(marker);
  }
  const auto markers = RecordingReader(path).markers(0);
  ASSERT_EQ(markers.size(), written.size());
  for (std::size_t i = 0; i < markers.size(); ++i) {
    EXPECT_EQ(markers[i].text, written[i].text);
    EXPECT_EQ(markers[i].key, written[i].key);
    EXPECT_EQ(markers[i].value, written[i].value);
  }
}

TEST(RecordingFormats, BytesOverTheWireAreKept) {
  const std::string path = temporary_file("wire.moescope");
  std::mt19937 rng(1);
  TelemetryFrame frame = sample_frame(0, {}, rng);
  frame.wire = {2, true, {1, std::uint64_t{1} << 40, 3, 4}, {0.5f, 2.5f}};
  {
    RecordingWriter writer(path);
    writer.add_run(sample_info({}));
    const auto shared = std::make_shared<const TelemetryFrame>(frame);
    writer.write(std::span(&shared, 1));
  }
  const auto read = RecordingReader(path).load(0)->frame_at(0);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->wire.ranks, 2);
  EXPECT_TRUE(read->wire.over_nodes);
  EXPECT_EQ(read->wire.sent_RR, frame.wire.sent_RR);
  EXPECT_EQ(read->wire.all_to_all_ms_R, frame.wire.all_to_all_ms_R);
  const auto json = nlohmann::json::parse(to_json_line(frame));
  EXPECT_EQ(json["wire"]["sent_bytes"][0][1], std::uint64_t{1} << 40);
  EXPECT_EQ(json["wire"]["all_to_all_ms"][1], 2.5);
}

}  // namespace
}  // namespace moescope
