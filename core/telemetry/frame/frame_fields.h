// The scalar fields of a frame as tables, so that history, recording and JSON lines name and order them alike.
#pragma once

#include <array>

#include "core/telemetry/frame/frame.h"

namespace moescope {

template <class Struct>
struct FloatField {
  const char* name;
  float Struct::*member;
};

inline constexpr std::array<FloatField<TelemetryFrame>, 6> kFrameFields = {{
    {"ce_loss", &TelemetryFrame::ce_loss},
    {"aux_loss", &TelemetryFrame::aux_loss},
    {"z_loss", &TelemetryFrame::z_loss},
    {"grad_norm", &TelemetryFrame::grad_norm},
    {"lr", &TelemetryFrame::lr},
    {"tokens_per_s", &TelemetryFrame::tokens_per_s},
}};

inline constexpr std::array<FloatField<RouterFrame>, 12> kRouterFields = {{
    {"max_vio", &RouterFrame::max_vio},
    {"max_vio_window", &RouterFrame::max_vio_window},
    {"cv", &RouterFrame::cv},
    {"entropy_norm", &RouterFrame::entropy_norm},
    {"dead_fraction", &RouterFrame::dead_fraction},
    {"score_entropy", &RouterFrame::score_entropy},
    {"margin", &RouterFrame::margin},
    {"aux_loss", &RouterFrame::aux_loss},
    {"z_loss", &RouterFrame::z_loss},
    {"padding_fraction", &RouterFrame::padding_fraction},
    {"dropped_fraction", &RouterFrame::dropped_fraction},
    {"mutual_information", &RouterFrame::mutual_information},
}};

inline constexpr std::array<FloatField<QuantFrame>, 8> kQuantFields = {{
    {"amax", &QuantFrame::amax},
    {"sqnr_db", &QuantFrame::sqnr_db},
    {"relative_l2", &QuantFrame::relative_l2},
    {"cosine", &QuantFrame::cosine},
    {"underflow", &QuantFrame::underflow},
    {"clipped", &QuantFrame::clipped},
    {"clipped_blocks", &QuantFrame::clipped_blocks},
    {"crest", &QuantFrame::crest},
}};

inline constexpr std::array<FloatField<FlipFrame>, 1> kFlipFields = {{{"flip_rate", &FlipFrame::flip_rate}}};

inline constexpr std::array<FloatField<GradientFrame>, 2> kGradientFields = {{
    {"snr_db", &GradientFrame::snr_db},
    {"cosine", &GradientFrame::cosine},
}};

// Bytes of an E8M0 histogram between its first and its last scale that occurs; count 0: all are zero.
struct ByteRange {
  int first = 0;
  int count = 0;
};
inline ByteRange occupied_bytes(const std::array<std::uint32_t, 256>& e8m0_blocks) {
  int first = 0;
  int last = 255;
  while (first < 256 && e8m0_blocks[first] == 0) ++first;
  if (first == 256) return {};
  while (e8m0_blocks[last] == 0) --last;
  return {first, last - first + 1};
}

}  // namespace moescope
