#include "widgets/plots/type_scale.h"

#include <QEvent>
#include <algorithm>
#include <cmath>
#include <utility>

namespace moescope {
namespace {

constexpr double kUsualLine = 14;  // pixels: DejaVu Sans of 9 points at 96 dpi

class FontFollower : public QObject {
 public:
  FontFollower(QWidget* widget, std::function<void()> size) : QObject(widget), size_(std::move(size)) {
    widget->installEventFilter(this);
  }

 protected:
  bool eventFilter(QObject* watched, QEvent* event) override {
    if (event->type() == QEvent::FontChange) size_();
    return QObject::eventFilter(watched, event);
  }

 private:
  std::function<void()> size_;
};

}  // namespace

double typeScale(const QFontMetrics& metrics) {
  return std::max(1.0, metrics.height() / kUsualLine);
}

int withType(double pixels, const QFontMetrics& metrics) {
  return static_cast<int>(std::lround(pixels * typeScale(metrics)));
}

void followFont(QWidget* widget, std::function<void()> size) {
  size();
  new FontFollower(widget, std::move(size));
}

}  // namespace moescope
