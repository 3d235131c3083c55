// The signs beside verdicts and findings. They differ in shape as well as in colour.
#pragma once

#include <QLabel>
#include <QPainter>
#include <QPixmap>

namespace moescope {

enum class HealthVerdict;

enum class Sign { good, attention, bad, unsure, open, note, over };

Sign signOf(HealthVerdict verdict);
QColor signColor(Sign sign, bool dark);
QColor signGround(Sign sign, bool dark);  // soft ground colour of a line with this sign
void paintSign(QPainter& painter, const QRectF& place, Sign sign, bool dark);
QPixmap signPixmap(Sign sign, int size, bool dark, double pixel_ratio);

// A sign as a widget, 16 pixels high with the usual font size.
class SignLabel : public QWidget {
  Q_OBJECT

 public:
  explicit SignLabel(QWidget* parent = nullptr);
  void setSign(Sign sign);
  Sign sign() const { return sign_; }

 protected:
  void paintEvent(QPaintEvent* event) override;

 private:
  Sign sign_ = Sign::note;
};

}  // namespace moescope
