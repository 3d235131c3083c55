#include "widgets/look/tokens.h"

#include <QApplication>
#include <QEvent>
#include <QFontDatabase>
#include <algorithm>
#include <cmath>
#include <utility>

#include "core/numerics/index.h"

namespace moescope {
namespace {

constexpr Colors kLightColors = {
    .window = 0xffedeff2,
    .surface = 0xffffffff,
    .sunken = 0xfff5f6f8,
    .popup = 0xffffffff,
    .hairline = 0xffdde0e5,
    .field_border = 0xff868e9a,
    .ink = 0xff16191d,
    .ink2 = 0xff545c68,
    .disabled = 0xff8b929d,
    .accent = 0xff3b5bdb,
    .accent_soft = 0xffe7ecfd,
    .on_accent = 0xffffffff,
    .good = 0xff18744a,
    .good_soft = 0xffe6f4ec,
    .attention = 0xff855600,
    .attention_soft = 0xfffcf2da,
    .bad = 0xffae3a10,
    .bad_soft = 0xfffcebe3,
    .neutral_soft = 0xffe9ebef,
    .grid = 0xffeceef1,
    .axis = 0xffc2c7ce,
    .plain_bar = 0xffb4bbc6,
    .strong_bar = 0xffe8700f,
    .no_data = 0xffd0d0d4,
    .zero_load = 0xff1c1c28,
    .zero_load_hatch = 0xfff0f0f0,
    .noise = 0xff6b7380,
    .series = {0xff0a6ea8, 0xffc04f00, 0xff1f5a2c, 0xffa87cf2, 0xff4a2060, 0xffb8883f, 0xff48474b, 0xff6b7380},
    .load = {0xff1a5fa8, 0xff4a93d0, 0xffa3cbe8, 0xfff7f7f5, 0xfffdbd72, 0xffe8700f, 0xffa03c00},
    .matrix = {0xfff1f7f3, 0xffd2e9dd, 0xffa2d2be, 0xff68b39c, 0xff3a8f7d, 0xff1c6a60, 0xff0b443f},
    .experts = {0xff0072b2, 0xff56b4e9, 0xff009e73, 0xffd8cf3a, 0xffe69f00, 0xffd55e00, 0xffcc79a7}};

constexpr Colors kDarkColors = {
    .window = 0xff0f1114,
    .surface = 0xff17191e,
    .sunken = 0xff111317,
    .popup = 0xff1d2026,
    .hairline = 0xff2b3038,
    .field_border = 0xff6a7280,
    .ink = 0xffe7e9ec,
    .ink2 = 0xffa4acb8,
    .disabled = 0xff6f7783,
    .accent = 0xff93a8ff,
    .accent_soft = 0xff232b4a,
    .on_accent = 0xff0f1114,
    .good = 0xff5fcb92,
    .good_soft = 0xff14251d,
    .attention = 0xfff0bc5e,
    .attention_soft = 0xff2b2312,
    .bad = 0xffff9268,
    .bad_soft = 0xff2f1c14,
    .neutral_soft = 0xff1e2228,
    .grid = 0xff252930,
    .axis = 0xff3c434d,
    .plain_bar = 0xff4c5564,
    .strong_bar = 0xffdb7a20,
    .no_data = 0xff4a4d54,
    .zero_load = 0xffc8c8d0,
    .zero_load_hatch = 0xff101018,
    .noise = 0xff9aa3af,
    .series = {0xff51a4d7, 0xffe7a004, 0xff85b677, 0xffd7cdee, 0xffa070ff, 0xffff8040, 0xffd9c0bf, 0xff9aa3af},
    .load = {0xff4698d8, 0xff2f74b0, 0xff1f4a78, 0xff272b32, 0xff7a4518, 0xffcf7420, 0xffffb768},
    .matrix = {0xff1b2326, 0xff1f3a3a, 0xff265651, 0xff327a6d, 0xff4ba08b, 0xff7fcbb0, 0xffc4f2db},
    .experts = {0xff0072b2, 0xff56b4e9, 0xff009e73, 0xffd8cf3a, 0xffe69f00, 0xffd55e00, 0xffcc79a7}};

double linear(int channel) {
  const double share = channel / 255.0;
  return share <= 0.04045 ? share / 12.92 : std::pow((share + 0.055) / 1.055, 2.4);
}

double luminance(QRgb color) {
  return 0.2126 * linear(qRed(color)) + 0.7152 * linear(qGreen(color)) + 0.0722 * linear(qBlue(color));
}

}  // namespace

const Colors& colors(bool dark) {
  return dark ? kDarkColors : kLightColors;
}

bool isDark(const QPalette& palette) {
  return palette.base().color().lightness() < 128;
}

QPalette themePalette(Theme theme) {
  const Colors& c = colors(theme == Theme::dark);
  QPalette palette;
  const auto set = [&](std::initializer_list<QPalette::ColorRole> roles, QRgb color) {
    for (const QPalette::ColorRole role : roles) palette.setColor(role, QColor(color));
  };
  set({QPalette::Window}, c.window);
  set({QPalette::Base, QPalette::Button}, c.surface);
  set({QPalette::AlternateBase}, c.sunken);
  set({QPalette::ToolTipBase}, c.popup);
  set({QPalette::WindowText, QPalette::Text, QPalette::ButtonText, QPalette::ToolTipText, QPalette::HighlightedText},
      c.ink);
  set({QPalette::PlaceholderText}, c.ink2);
  set({QPalette::Highlight}, c.accent_soft);
  set({QPalette::Link, QPalette::LinkVisited}, c.accent);
  set({QPalette::Light, QPalette::Midlight}, c.neutral_soft);
  set({QPalette::Mid, QPalette::Dark}, c.hairline);
  set({QPalette::Shadow}, c.field_border);
  for (const auto role : {QPalette::WindowText, QPalette::Text, QPalette::ButtonText, QPalette::HighlightedText})
    palette.setColor(QPalette::Disabled, role, QColor(c.disabled));
  palette.setColor(QPalette::Disabled, QPalette::Highlight, QColor(c.neutral_soft));
  return palette;
}

QFont bodyFont() {
  QFont font = QFontDatabase::systemFont(QFontDatabase::GeneralFont);
  font.setFamilies({QStringLiteral("Open Sans"), font.family(), QStringLiteral("DejaVu Sans")});
  font.setPixelSize(static_cast<int>(Type::body));
  font.setWeight(QFont::Normal);
  return font;
}

QFont scaledFont(QFont font, double factor) {
  font.setPixelSize(std::max(1, to_int(std::lround(QFontInfo(font).pixelSize() * factor))));
  return font;
}

QFont semibold(QFont font) {
  font.setWeight(QFont::DemiBold);
  return font;
}

QFont typeFont(const QFont& body, Type type, bool bold) {
  const QFont font = scaledFont(body, static_cast<double>(type) / static_cast<double>(Type::body));
  return bold ? semibold(font) : font;
}

QFont typeFont(Type type, bool bold) {
  return typeFont(QApplication::font(), type, bold);
}

QFont formulaFont(const QFont& body) {
  QFont font = QFontDatabase::systemFont(QFontDatabase::FixedFont);
  font.setPixelSize(QFontInfo(body).pixelSize() * kFormulaPixels / static_cast<int>(Type::body));
  return font;
}

double contrast(QRgb a, QRgb b) {
  const auto [darker, lighter] = std::minmax({luminance(a), luminance(b)});
  return (lighter + 0.05) / (darker + 0.05);
}

namespace {

// Sizes in pixels. Until a theme is applied, the sizes of DejaVu Sans with 9 points at 96 dpi.
struct UsualType {
  double line = 14, size = 12;
} usual_type;

class FontFollower : public QObject {
 public:
  FontFollower(QWidget* widget, std::function<void()> size) : QObject(widget), size_(std::move(size)) {
    widget->installEventFilter(this);
  }

 protected:
  bool eventFilter(QObject* watched, QEvent* event) override {
    // ApplicationFontChange reaches widgets with their own font size, which get no FontChange.
    if (event->type() == QEvent::FontChange || event->type() == QEvent::ApplicationFontChange) size_();
    return QObject::eventFilter(watched, event);
  }

 private:
  std::function<void()> size_;
};

}  // namespace

void setUsualType(const QFont& font) {
  usual_type = {QFontMetrics(font).height() + 0.0, QFontInfo(font).pixelSize() + 0.0};
}

double typeScale(const QFontMetrics& metrics) {
  const double enlarged = QFontInfo(QApplication::font()).pixelSize() / usual_type.size;
  return std::max({1.0, enlarged, metrics.height() / usual_type.line});
}

int withType(double pixels, const QFontMetrics& metrics) {
  return to_int(std::lround(pixels * typeScale(metrics)));
}

void followFont(QWidget* widget, std::function<void()> size) {
  size();
  new FontFollower(widget, std::move(size));
}

}  // namespace moescope
