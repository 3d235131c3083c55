#include "widgets/look/type_scale.h"

#include <QApplication>
#include <QEvent>
#include <algorithm>
#include <cmath>
#include <utility>

#include "core/numerics/index.h"

namespace moescope {
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
