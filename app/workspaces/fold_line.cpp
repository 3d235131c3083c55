#include "app/workspaces/fold_line.h"

#include <QHBoxLayout>
#include <QLabel>
#include <QPainter>

#include "widgets/look/fitted_text.h"
#include "widgets/look/tokens.h"
#include "widgets/look/type_scale.h"

namespace moescope {

FoldLine::FoldLine(QWidget* parent) : QFrame(parent), words_(new FittedLabel(this)) {
  setObjectName("lacks");
  words_->setRole(QPalette::PlaceholderText);
  auto* link = new QLabel("<a href=\"#\">Show</a>", this);
  link->setAccessibleName("Show the hidden panels");
  link->setToolTip("Show the hidden panels; View > Panels shows single ones");
  link->setTextInteractionFlags(Qt::LinksAccessibleByMouse | Qt::LinksAccessibleByKeyboard);
  link->setFocusPolicy(Qt::TabFocus);
  connect(link, &QLabel::linkActivated, this, &FoldLine::showRequested);
  auto* row = new QHBoxLayout(this);
  row->setContentsMargins(kSpace12, 0, kSpace12, 0);
  row->addWidget(words_, 1);
  row->addWidget(link);
  followFont(this, [this] { setFixedHeight(withType(kFieldHeight, fontMetrics())); });
}

void FoldLine::tell(const QString& source, const QStringList& lacking, const QStringList& panels) {
  const QString hidden =
      panels.size() == 1 ? QString("1 panel hidden") : QString("%1 panels hidden").arg(panels.size());
  words_->setTexts({QString("Not in this %1: %2. %3").arg(source, lacking.join(", "), hidden), hidden});
  words_->setToolTip("Hidden: " + panels.join(", "));
}

void FoldLine::paintEvent(QPaintEvent*) {
  QPainter painter(this);
  painter.setRenderHint(QPainter::Antialiasing);
  painter.setPen(QPen(QColor(colors(palette()).axis), 1, Qt::DashLine));
  painter.drawRoundedRect(QRectF(rect()).adjusted(0.5, 0.5, -0.5, -0.5), kRadiusPanel, kRadiusPanel);
}

}  // namespace moescope
