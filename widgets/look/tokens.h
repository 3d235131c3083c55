// All colours, sizes and font sizes of the window, for the light and the dark theme. No other file contains such
// literals (tests/include_rules.cmake). Sizes are in logical pixels at the usual font size; withType()
// enlarges them.
#pragma once

#include <QColor>
#include <QFont>
#include <QFontMetrics>
#include <QPalette>
#include <QWidget>
#include <array>
#include <functional>

namespace moescope {

enum class Theme { dark, light };

inline constexpr int kSpace4 = 4, kSpace8 = 8, kSpace12 = 12, kSpace16 = 16, kSpace24 = 24;
inline constexpr int kRadiusControl = 4, kRadiusPanel = 6;
inline constexpr int kBarHeight = 44, kVerdictHeight = 40, kTileHeight = 68, kTimelineHeight = 40, kStatusHeight = 24;
inline constexpr int kPanelHeaderHeight = 28, kAnswerHeight = 20, kFieldHeight = 28, kFlatHeight = 24;
inline constexpr int kLabelColumn = 130, kDrawerWidth = 384, kPopoverWidth = 328, kTableRowHeight = 38;
inline constexpr int kNarrowWindow = 1000;  // width below which workspaces are in a combo box and panels in one column
inline constexpr int kTabUnderline = 3, kFocusLine = 2, kMarkSize = 16, kChipSize = 18;
inline constexpr double kCurveWidth = 1.75, kRawCurveWidth = 1, kRawCurveAlpha = 0.38;

// Font sizes in pixels.
enum class Type : int { caption = 11, secondary = 12, body = 13, heading = 16, figure = 20 };
inline constexpr int kFormulaPixels = 12;

inline constexpr QRgb kPaper = 0xffffffff, kBlack = 0xff000000;  // ground of exported pictures; text on coloured cells

struct Colors {
  QRgb window, surface, sunken, popup, hairline, field_border, ink, ink2, disabled;
  QRgb accent, accent_soft, on_accent, good, good_soft, attention, attention_soft, bad, bad_soft, neutral_soft;
  QRgb grid, axis, plain_bar, strong_bar;
  QRgb no_data, zero_load, zero_load_hatch;
  QRgb noise;                   // colour of noise twins, whose curves are dashed
  std::array<QRgb, 8> series;   // the first four are the runs A to D
  std::array<QRgb, 7> load;     // from a quarter of the fair share to four times the fair share
  std::array<QRgb, 7> matrix;   // matrices with numbers; the last: more bytes, or less SQNR
  std::array<QRgb, 7> experts;  // colours of experts by number
};

const Colors& colors(bool dark);
bool isDark(const QPalette& palette);
inline const Colors& colors(const QPalette& palette) {
  return colors(isDark(palette));
}
QPalette themePalette(Theme theme);
inline constexpr int kNoiseSeries = -1;  // index of noise twins in place of an index of `series`
// An index plus kSeriesShade times n is a further curve of the same run: a shade of its colour, with dashes or dots.
inline constexpr int kSeriesShade = 64;

// Colours of maps with many cells, equal in both themes, from dark to light.
inline constexpr std::array<QRgb, 10> kViridis = {0xff440154, 0xff482878, 0xff3e4989, 0xff31688e, 0xff26828e,
                                                  0xff1f9e89, 0xff35b779, 0xff6dcd59, 0xffb4de2c, 0xfffde725};
inline constexpr std::array<QRgb, 10> kCividis = {0xff00224e, 0xff123570, 0xff3b496c, 0xff575d6d, 0xff707173,
                                                  0xff8a8678, 0xffa59c74, 0xffc3b369, 0xffe1cc55, 0xfffee838};

// Colours of experts beside Colors::experts, chosen one after the other, each as far as possible from those before
// it in OKLab, also as a reader with deuteranopia sees them.
inline constexpr std::array<QRgb, 9> kFurtherExperts = {0xff781d2b, 0xfff0d2ed, 0xff0705ca, 0xff403b79, 0xffb656fc,
                                                        0xff6f6208, 0xff1fdb98, 0xff074ffd, 0xffaa0d6e};

// Returns the font of the window: Open Sans, whose digits have equal widths; else the desktop's font, else DejaVu Sans.
QFont bodyFont();
// Returns a font of this size relative to `body`, which the projector view enlarges.
QFont typeFont(const QFont& body, Type type, bool semibold = false);
QFont typeFont(Type type, bool semibold = false);  // relative to the font of the application
QFont semibold(QFont font);
QFont scaledFont(QFont font, double factor);
QFont formulaFont(const QFont& body);

// Returns the luminance contrast of two opaque colours, 1 to 21 (WCAG 2.1, 1.4.3).
double contrast(QRgb a, QRgb b);

// Sizes scale with the font, which grows in the projector view and on a screen of high resolution.

// Sets the font whose scale is 1. Called when a theme is applied.
void setUsualType(const QFont& font);
// Returns the scale of a font: 1 for the usual font and smaller fonts, and at least the enlargement of the
// application's font.
double typeScale(const QFontMetrics& metrics);
int withType(double pixels, const QFontMetrics& metrics);

// Calls `size` now and whenever the widget's font changes, for sizes that are set once.
void followFont(QWidget* widget, std::function<void()> size);

}  // namespace moescope
