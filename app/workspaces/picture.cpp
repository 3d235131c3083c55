#include "app/workspaces/picture.h"

#include <QBuffer>
#include <QCoreApplication>
#include <QDockWidget>
#include <QFileInfo>
#include <QLayout>
#include <QPainter>
#include <climits>
#include <functional>
#include <stdexcept>

#include "app/workspaces/svg_device.h"
#include "app/workspaces/workspace.h"
#include "core/files/whole_file.h"
#include "core/recording/history/step_axis.h"
#include "widgets/look/counted_text.h"
#include "widgets/look/fitted_text.h"
#include "widgets/look/tokens.h"
#include "widgets/plots/color_scale.h"
#include "widgets/selection/compared_runs.h"

namespace moescope {

namespace {

// Returns for example "Runs A small, B small+mxfp8; 400 steps".
QString runsLine(const Selection& selection) {
  QStringList names;
  int place = 0;
  const History* longest = nullptr;
  for (const auto& history : selection.histories()) {
    names << runLabel(selection, place++);
    if (!longest || history->count() > longest->count()) longest = history.get();
  }
  if (names.isEmpty()) return "No run is open";
  return QString("%1 %2; %3")
      .arg(names.size() > 1 ? "Runs" : "Run", names.join(", "), QString::fromStdString(steps_text(*longest)));
}

constexpr int kMargin = kSpace12;

QPalette paper() {
  QPalette palette = themePalette(Theme::light);
  palette.setColor(QPalette::Window, QColor(kPaper));
  palette.setColor(QPalette::Base, QColor(kPaper));
  return palette;
}

// While this object exists, a widget has the light palette, and its plots paint for print.
class OnPaper {
 public:
  explicit OnPaper(QWidget* widget)
      : widget_(widget), palette_(widget->palette()), has_own_palette_(widget->testAttribute(kOwn)) {
    widget_->setPalette(paper());
    for (PlotFrame* plot : plots()) {
      plot->setPrinted(true);
      plot->markDirty();
    }
  }
  ~OnPaper() {
    for (PlotFrame* plot : plots()) {
      plot->setPrinted(false);
      plot->markDirty();
    }
    widget_->setPalette(has_own_palette_ ? palette_ : QPalette());
  }
  Q_DISABLE_COPY(OnPaper)

 private:
  static constexpr Qt::WidgetAttribute kOwn = Qt::WA_SetPalette;
  QList<PlotFrame*> plots() const {
    QList<PlotFrame*> all = widget_->findChildren<PlotFrame*>();
    if (auto* plot = qobject_cast<PlotFrame*>(widget_)) all << plot;
    return all;
  }
  QWidget* widget_;
  QPalette palette_;
  bool has_own_palette_;
};

// While this object exists, a panel has another size. The layout around the panel is disabled, since it would resize
// the panel as soon as the panel shows or hides a control.
class Resized {
 public:
  Resized(QWidget* widget, QSize size) : widget_(widget), geometry_(widget->geometry()) {
    if (const QWidget* parent = widget->parentWidget()) around_ = parent->layout();
    if (around_) around_->setEnabled(false);
    become(size);
  }
  ~Resized() {
    widget_->setGeometry(geometry_);
    settle();
    if (around_) around_->setEnabled(true);
  }
  void become(QSize size) {
    widget_->resize(size);
    settle();
  }
  Q_DISABLE_COPY(Resized)

 private:
  // Activates layouts from the outside in, since a hidden widget would get its size only when it is shown.
  void settle() {
    QList<QWidget*> all = widget_->findChildren<QWidget*>();
    all.prepend(widget_);
    for (QWidget* child : all) {
      if (!child->layout()) continue;
      child->layout()->invalidate();
      child->layout()->activate();
    }
  }
  QWidget* widget_;
  QRect geometry_;
  QLayout* around_ = nullptr;
};

// While this object exists, a hidden panel has no parent, since layouts of hidden windows would set its size.
class Detached {
 public:
  explicit Detached(QWidget* panel)
      : panel_(panel), dock_(panel->isVisible() ? nullptr : qobject_cast<QDockWidget*>(panel->parentWidget())) {
    if (dock_) panel_->setParent(nullptr);
  }
  ~Detached() {
    if (!dock_) return;
    dock_->setWidget(panel_);
    panel_->show();
  }
  Q_DISABLE_COPY(Detached)

 private:
  QWidget* panel_;
  QDockWidget* dock_;
};

// The fonts of a picture, derived from the font on screen.
struct PictureType {
  explicit PictureType(const QFont& screen)
      : title(typeFont(screen, Type::heading, true)),
        panel_title(typeFont(screen, Type::body, true)),
        answer(typeFont(screen, Type::body)),
        line(typeFont(screen, Type::secondary)),
        small(typeFont(screen, Type::caption)) {}
  QFont title, panel_title, answer, line, small;
};

int lineHeight(const QFont& font) {
  return QFontMetrics(font).height() + 1;
}

// Returns the height of a wrapped text. A picture has no tool tip that could show cut text.
int wrappedHeight(const QFont& font, int width, const QString& text) {
  if (text.isEmpty()) return 0;
  return QFontMetrics(font).boundingRect(QRect(0, 0, width, INT_MAX / 2), Qt::TextWordWrap, text).height() + 1;
}

void drawWrapped(QPainter& painter, QRect place, const QFont& font, const QColor& color, const QString& text) {
  painter.setFont(font);
  painter.setPen(color);
  painter.drawText(place, Qt::AlignLeft | Qt::AlignTop | Qt::TextWordWrap, text);
}

// Paints the panel's color scale at the right end of a line, in the painter's font.
void paintLegendOf(const Panel& panel, QPainter& painter, const QRect& line) {
  if (panel.pictureLegend()) paintFlatLegend(painter, line, panel.pictureLegend()(), paper());
}

// Returns a text such as "counted, layer 1, step 5", then the text without its last part, its last two parts, ...
QStringList withFewerParts(const QString& text) {
  QStringList parts = text.split(QStringLiteral(", ")), forms;
  for (; !parts.isEmpty(); parts.removeLast()) forms << parts.join(QStringLiteral(", "));
  return forms;
}

void drawLine(QPainter& painter, QRect place, const QFont& font, const QColor& color, const QString& text) {
  painter.setFont(font);
  painter.setPen(color);
  painter.drawText(place, Qt::AlignLeft | Qt::AlignVCenter,
                   fittingText(withFewerParts(text), QFontMetrics(font), place.width()));
}

// Draws "Runs [color] A small, [color] B twin; 400 steps", with squares in the runs' colors if there are several runs.
// `panel`: nullptr for a workspace.
void drawRuns(QPainter& painter, QRect place, const QFont& font, const Selection& selection, const Panel* panel) {
  const auto& histories = selection.histories();
  if (histories.size() < 2) return drawLine(painter, place, font, paper().text().color(), runsLine(selection));
  const QFontMetrics metrics(font);
  const int side = metrics.ascent() - 2;
  for (std::size_t run = 0; run < histories.size() && place.width() > 2 * side; ++run) {
    const int number = to_int(run);
    painter.fillRect(QRect(place.left(), place.center().y() - side / 2, side, side),
                     seriesColor(runColor(selection, number), false));
    place.setLeft(place.left() + side + 5);
    const QString name = runLabel(selection, number);
    drawLine(painter, place, font, paper().text().color(), name);
    place.setLeft(place.left() + metrics.horizontalAdvance(name) + 14);
  }
  if (place.width() > 2 * side && !(panel && panel->property("shows_all_runs").toBool()))
    drawLine(painter, place, font, mutedText(paper()),
             "where one run is shown: " + runLetter(selection, selection.run()));
}

void renderBody(QPainter& painter, Panel* panel, QPoint at) {
  const QRect body = panel->bodyRect();
  panel->render(&painter, at, QRegion(body), QWidget::DrawChildren);
}

QString programLine() {
  return "MoEScope " + QCoreApplication::applicationVersion();
}

PrintedPicture drawn(QSize size, PictureKind kind, const QString& title, const QString& description,
                     const QByteArray& id, const std::function<void(QPainter&)>& paint) {
  PrintedPicture picture;
  if (kind == PictureKind::svg) {
    SvgDevice device(size, title, description);
    QPainter painter(&device);
    painter.fillRect(QRect(QPoint(0, 0), size), QColor(kPaper));
    paint(painter);
    painter.end();
    picture.svg = device.document();
    picture.html = device.element(id);
    return picture;
  }
  picture.image = QImage(size * kPrintScale, QImage::Format_RGB32);
  picture.image.setDevicePixelRatio(kPrintScale);
  picture.image.fill(QColor(kPaper));
  QPainter painter(&picture.image);
  painter.setRenderHint(QPainter::TextAntialiasing);
  paint(painter);
  return picture;
}

void savePicture(const PrintedPicture& picture, const QString& path) {
  const QByteArray bytes = picture.svg.isEmpty() ? pngOf(picture.image) : picture.svg;
  write_whole_file(path.toStdString(), bytes.toStdString());
}

PictureKind kindOf(const QString& path, const QString& form) {
  const QString suffix = QFileInfo(path).suffix().toLower(), chosen_form = form.isEmpty() ? suffix : form;
  if (form.isEmpty() && QStringList{"csv", "json", "html", "txt"}.contains(suffix))
    throw std::runtime_error("A picture is a PNG or an SVG: choose a name that ends with .png or .svg.");
  return chosen_form == "svg" ? PictureKind::svg : PictureKind::image;
}

// Returns the visible docks that are not floating.
QList<QDockWidget*> docksOnScreen(const Workspace& workspace) {
  QList<QDockWidget*> docks;
  for (QDockWidget* dock : workspace.docks())
    if (dock->isVisible() && !dock->isFloating() && !dock->visibleRegion().isEmpty()) docks << dock;
  return docks;
}

void paintDock(QPainter& painter, QDockWidget* dock, QPoint origin) {
  const QRect place = dock->geometry().translated(origin);
  QWidget* content = dock->widget();
  const OnPaper light(content);
  auto* panel = qobject_cast<Panel*>(content);
  if (!panel) {
    content->render(&painter, place.topLeft() + content->pos(), QRegion(), QWidget::DrawChildren);
    return;
  }
  const QFont usual = painter.font();
  const PictureType type(usual);
  const QRect content_rect = panel->geometry().translated(place.topLeft());
  const int margin = kSpace12, header = panel->header()->height();
  const QRect head(content_rect.left() + margin, content_rect.top(), content_rect.width() - 2 * margin, header);
  drawLine(painter, head, type.panel_title, paper().text().color(), dock->windowTitle());
  const int title = QFontMetrics(type.panel_title).horizontalAdvance(dock->windowTitle()) + kSpace8;
  drawLine(painter, head.adjusted(title, 0, 0, 0), type.line, mutedText(paper()), panel->caption());
  drawLine(painter, {head.left(), head.bottom() + 1, head.width(), panel->bodyRect().top() - header}, type.line,
           paper().text().color(), panel->answerText());
  painter.setFont(type.small);
  paintLegendOf(*panel, painter, {head.left(), head.bottom() + 1, head.width(), panel->bodyRect().top() - header});
  painter.setFont(usual);
  const QPoint body = place.topLeft() + panel->pos();
  renderBody(painter, panel, body + panel->bodyRect().topLeft());
  painter.setPen(gridColor(paper()));
  painter.drawRect(place.adjusted(0, 0, -1, -1));
}

}  // namespace

PrintedPicture panelPicture(Panel* panel, const Selection& selection, PictureKind kind, QSize size,
                            const QByteArray& id_prefix) {
  const Detached detached(panel);
  const OnPaper light(panel);
  const QSize min_size = size.isValid() ? size : kMinPicture;
  const QSize wanted_size = size.isValid() ? size : panel->size().expandedTo(min_size);
  Resized resized(panel, wanted_size);
  resized.become(wanted_size + QSize(0, panel->bodyRect().top()));  // plus the header, which is not in the picture
  const QFont font = panel->font();
  const PictureType type(font);
  const QSize body = panel->bodyRect().size();
  const QString runs = runsLine(selection), caption = panel->caption(), answer = withUnbrokenUnits(panel->answerText());
  const int title_height = lineHeight(type.title), line = lineHeight(type.line), width = body.width();
  const int answer_height = wrappedHeight(type.answer, width, answer),
            caption_height = wrappedHeight(type.line, width, caption);
  const int head = kMargin + title_height + answer_height + line + caption_height + kSpace8;
  const QSize all(width + 2 * kMargin, head + body.height() + line + kMargin);
  return drawn(
      all, kind, panel->title(), QStringList{answer, runs, caption}.join("; "), id_prefix, [&](QPainter& painter) {
        int y = kMargin;
        drawLine(painter, {kMargin, y, width, title_height}, type.title, paper().text().color(), panel->title());
        y += title_height;
        drawWrapped(painter, {kMargin, y, width, answer_height}, type.answer, paper().text().color(), answer);
        y += answer_height;
        drawRuns(painter, {kMargin, y, width, line}, type.line, selection, panel);
        y += line;
        drawWrapped(painter, {kMargin, y, width, caption_height}, type.line, mutedText(paper()), caption);
        painter.setFont(font);
        renderBody(painter, panel, {kMargin, head});
        const QRect foot(kMargin, head + body.height() + 2, width, line);
        drawLine(painter, foot, type.small, mutedText(paper()), programLine());
        paintLegendOf(*panel, painter, foot);
      });
}

PrintedPicture workspacePicture(Workspace* workspace, const Selection& selection, PictureKind kind) {
  const QFont font = workspace->font();
  const PictureType type(font);
  const int title_height = lineHeight(type.title), line = lineHeight(type.line);
  const int head = kMargin + title_height + line + 6;
  const QSize all(workspace->width() + 2 * kMargin, head + workspace->height() + line + kMargin);
  const QString runs = runsLine(selection) + ", shown: step " + QString::number(selection.step());
  return drawn(all, kind, workspace->name(), runs, {}, [&](QPainter& painter) {
    const int width = workspace->width();
    drawLine(painter, {kMargin, kMargin, width, title_height}, type.title, paper().text().color(), workspace->name());
    drawRuns(painter, {kMargin, kMargin + title_height, width, line}, type.line, selection, nullptr);
    QWidget* over_panels = workspace->menuWidget();  // the line of verdicts, the banner
    const OnPaper light(over_panels);
    over_panels->render(&painter, over_panels->pos() + QPoint(kMargin, head), QRegion(), QWidget::DrawChildren);
    for (QDockWidget* dock : docksOnScreen(*workspace)) {
      painter.setFont(font);
      paintDock(painter, dock, {kMargin, head});
    }
    drawLine(painter, {kMargin, head + workspace->height() + 2, width, line}, type.small, mutedText(paper()),
             programLine());
  });
}

void savePanelPicture(Panel* panel, const Selection& selection, const QString& path, const QString& form, QSize size) {
  savePicture(panelPicture(panel, selection, kindOf(path, form), size), path);
}

void saveWorkspacePicture(Workspace* workspace, const Selection& selection, const QString& path, const QString& form) {
  savePicture(workspacePicture(workspace, selection, kindOf(path, form)), path);
}

QByteArray pngOf(const QImage& image) {
  QByteArray png;
  QBuffer buffer(&png);
  buffer.open(QIODevice::WriteOnly);
  image.save(&buffer, "PNG");
  return png;
}

QMimeData* panelMimeData(Panel* panel, const Selection& selection) {
  auto* data = new QMimeData;
  data->setImageData(panelPicture(panel, selection, PictureKind::image).image);
  data->setData("image/svg+xml", panelPicture(panel, selection, PictureKind::svg).svg);
  data->setText(panel->csvFile());
  data->setData("text/csv", panel->csvFile().toUtf8());
  return data;
}

}  // namespace moescope
