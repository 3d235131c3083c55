// The marks beside verdicts and findings: a shape for each besides its colour, so that nothing depends on telling
// colours apart.
#pragma once

#include <QLabel>
#include <QPainter>
#include <QPixmap>

namespace moescope {

enum class Sign { good, attention, bad, unsure, note, over };

QColor signColor(Sign sign, bool dark);
QColor signGround(Sign sign, bool dark);  // the soft ground of a line that has the sign
void paintSign(QPainter& painter, const QRectF& place, Sign sign, bool dark);
QPixmap signPixmap(Sign sign, int size, bool dark, double pixel_ratio);

// A sign as a widget, 16 pixels beside the usual type.
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
