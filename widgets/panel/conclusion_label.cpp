#include "widgets/panel/conclusion_label.h"

#include <QTimer>

#include "widgets/plots/color_scale.h"
#include "widgets/selection/compared_runs.h"

namespace moescope {

ConclusionLabel::ConclusionLabel(QWidget* parent) : QLabel(parent) {
  setWordWrap(true);
  setTextFormat(Qt::RichText);
  setTextInteractionFlags(Qt::TextSelectableByMouse);
  setAccessibleName(tr("Conclusion"));
  hide();
}

void ConclusionLabel::say(const QString& html) {
  if (html == text()) return;
  QTimer::singleShot(0, this, [this, html] {
    setText(html);
    setVisible(!html.isEmpty());
  });
}

QString runFigure(const Selection& selection, int run, const QString& figure, const QPalette& palette) {
  return QStringLiteral("<b style='color:%1'>%2</b>&nbsp;%3")
      .arg(seriesColor(runColor(selection, run), isDark(palette)).name(), runLetter(selection, run),
           figure.toHtmlEscaped().replace(' ', "&nbsp;"));
}

}  // namespace moescope
