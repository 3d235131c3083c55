#include "app/workspaces/svg_device.h"

#include <QGuiApplication>
#include <QHash>
#include <QImage>
#include <QLinearGradient>
#include <QPaintEngine>
#include <QPainterPath>
#include <QPixmap>
#include <QScreen>
#include <algorithm>
#include <cmath>
#include <functional>

#include "app/workspaces/picture.h"

namespace moescope {

namespace {

// Placeholder for the prefix of ids until the document is put together. Does not occur in escaped text.
constexpr char kIdMark = '\x01';
constexpr int kSmallImageUpscale = 2048;  // viewers blur an enlarged image, so small images are enlarged here

QByteArray svgNumber(double value) {
  QByteArray text = QByteArray::number(value, 'f', 2);
  while (text.endsWith('0')) text.chop(1);
  if (text.endsWith('.')) text.chop(1);
  return text == "-0" ? QByteArray("0") : text;
}

QByteArray attribute(const char* name, const QByteArray& value) {
  return ' ' + QByteArray(name) + "=\"" + value + '"';
}

QByteArray escaped(const QString& text) {
  QString printable_text;
  for (const QChar c : text) printable_text += c.unicode() < 0x20 || c.unicode() == 0x7f ? QChar(u' ') : c;
  return printable_text.toHtmlEscaped().toUtf8();
}

QByteArray colour(const char* name, const QColor& color) {
  QByteArray text = attribute(name, color.name(QColor::HexRgb).toLatin1());
  if (color.alpha() < 255) text += attribute((QByteArray(name) + "-opacity").constData(), svgNumber(color.alphaF()));
  return text;
}

QByteArray pathData(const QPainterPath& path) {
  QByteArray data;
  const auto point = [&](int i) { return svgNumber(path.elementAt(i).x) + ' ' + svgNumber(path.elementAt(i).y); };
  for (int i = 0; i < path.elementCount(); ++i) {
    switch (path.elementAt(i).type) {
      case QPainterPath::MoveToElement:
        data += 'M' + point(i);
        break;
      case QPainterPath::LineToElement:
        data += 'L' + point(i);
        break;
      case QPainterPath::CurveToElement:
        data += 'C' + point(i) + ' ' + point(i + 1) + ' ' + point(i + 2);
        i += 2;
        break;
      default:
        break;
    }
  }
  return data;
}

double fontPixels(const QFont& font, int dpi) {
  return font.pixelSize() > 0 ? font.pixelSize() : font.pointSizeF() * dpi / 72.0;
}

// Returns the lines or dots of an 8 x 8 tile for the patterns that panels paint: diagonal lines, and Qt::Dense1Pattern
// to Qt::Dense7Pattern.
QByteArray patternTile(Qt::BrushStyle style, const QColor& color) {
  const QByteArray stroke = colour("stroke", color) + attribute("stroke-width", "1") + attribute("fill", "none");
  const QByteArray down = "M-1 -1L9 9M-1 7L1 9M7 -1L9 1", up = "M-1 9L9 -1M-1 1L1 -1M7 9L9 7";
  if (style == Qt::BDiagPattern) return "<path d=\"" + up + '"' + stroke + "/>";
  if (style == Qt::DiagCrossPattern) return "<path d=\"" + up + down + '"' + stroke + "/>";
  // Sides of the two dots of a tile: Qt::Dense1Pattern is the densest, Qt::Dense7Pattern the sparsest.
  constexpr double kSide[] = {3.7, 3.4, 3.2, 2.8, 2.2, 1.6, 1.0};
  const int which = std::clamp(static_cast<int>(style) - static_cast<int>(Qt::Dense1Pattern), 0, 6);
  QByteArray dots;
  for (const QPoint at : {QPoint(0, 0), QPoint(4, 4)})
    dots += "<rect x=\"" + svgNumber(at.x()) + "\" y=\"" + svgNumber(at.y()) + "\" width=\"" + svgNumber(kSide[which]) +
            "\" height=\"" + svgNumber(kSide[which]) + '"' + colour("fill", color) + "/>";
  return dots;
}

}  // namespace

class SvgEngine : public QPaintEngine {
 public:
  explicit SvgEngine(QSize size) : QPaintEngine(AllFeatures), canvas_(QPoint(0, 0), size) {}

  bool begin(QPaintDevice* device) override {
    dpi_ = device->logicalDpiY();
    return true;
  }
  bool end() override {
    closeGroup();
    return true;
  }
  Type type() const override { return User; }
  void updateState(const QPaintEngineState& state) override;

  void drawPath(const QPainterPath& path) override { shape("path", attribute("d", pathData(placed(path)))); }
  void drawPolygon(const QPointF* points, int count, PolygonDrawMode mode) override;
  void drawRects(const QRectF* rects, int count) override;
  void drawLines(const QLineF* lines, int count) override;
  void drawEllipse(const QRectF& rect) override;
  void drawPoints(const QPointF* points, int count) override;
  void drawPixmap(const QRectF& rect, const QPixmap& pixmap, const QRectF& source) override {
    drawImage(rect, pixmap.toImage(), source, Qt::AutoColor);
  }
  void drawImage(const QRectF& rect, const QImage& image, const QRectF& source, Qt::ImageConversionFlags) override;
  void drawTextItem(const QPointF& at, const QTextItem& item) override;
  using QPaintEngine::drawEllipse;
  using QPaintEngine::drawLines;
  using QPaintEngine::drawPoints;
  using QPaintEngine::drawPolygon;
  using QPaintEngine::drawRects;

  QByteArray body, definitions;

 private:
  bool onlyMoved() const { return transform_.type() <= QTransform::TxTranslate; }
  QPointF shift() const { return onlyMoved() ? QPointF(transform_.dx(), transform_.dy()) : QPointF(); }
  QPainterPath placed(const QPainterPath& path) const { return path.translated(shift()); }
  QByteArray transformAttribute() const;
  QByteArray fill();
  QByteArray stroke() const;
  QByteArray opacity() const { return opacity_ < 1 ? attribute("opacity", svgNumber(opacity_)) : QByteArray(); }
  void shape(const char* element, const QByteArray& geometry, bool filled = true);
  void openGroup();  // opens a group for the present clip
  void closeGroup();
  QByteArray define(const QByteArray& key, const std::function<QByteArray(const QByteArray& id)>& make);
  void takeClip(const QPaintEngineState& state);

  QRect canvas_;
  int dpi_ = 96;
  QPen pen_;
  QBrush brush_;
  QTransform transform_;
  qreal opacity_ = 1;
  bool antialiased_ = false, clipping_ = false, clipped_ = false;
  QPainterPath clip_;      // the present clip, in coordinates of the canvas
  QByteArray open_group_;  // clip of the open group as path data
  bool group_open_ = false;
  QHash<QByteArray, QByteArray> ids_;
};

void SvgEngine::updateState(const QPaintEngineState& state) {
  const DirtyFlags dirty = state.state();
  if (dirty & DirtyTransform) transform_ = state.transform();
  if (dirty & DirtyPen) pen_ = state.pen();
  if (dirty & DirtyBrush) brush_ = state.brush();
  if (dirty & DirtyOpacity) opacity_ = state.opacity();
  if (dirty & DirtyHints) antialiased_ = state.renderHints() & QPainter::Antialiasing;
  if (dirty & DirtyClipEnabled) clipping_ = state.isClipEnabled();
  if (dirty & (DirtyClipPath | DirtyClipRegion)) takeClip(state);
}

void SvgEngine::takeClip(const QPaintEngineState& state) {
  QPainterPath path;
  if (state.state() & DirtyClipPath)
    path = state.clipPath();
  else
    path.addRegion(state.clipRegion());
  path = state.transform().map(path);
  clipping_ = state.clipOperation() != Qt::NoClip;
  if (state.clipOperation() == Qt::IntersectClip && clipped_) path = clip_.intersected(path);
  clipped_ = clipping_;
  clip_ = clipping_ ? path : QPainterPath();
}

QByteArray SvgEngine::transformAttribute() const {
  if (onlyMoved()) return {};
  QByteArray values;
  for (const double v :
       {transform_.m11(), transform_.m12(), transform_.m21(), transform_.m22(), transform_.dx(), transform_.dy()})
    values += (values.isEmpty() ? "" : " ") + QByteArray::number(v, 'g', 6);
  return attribute("transform", "matrix(" + values + ')');
}

QByteArray SvgEngine::define(const QByteArray& key, const std::function<QByteArray(const QByteArray& id)>& make) {
  QByteArray& id = ids_[key];
  if (id.isEmpty()) {
    id = kIdMark + QByteArray("d") + QByteArray::number(ids_.size());
    definitions += make(id) + '\n';
  }
  return id;
}

QByteArray SvgEngine::fill() {
  if (brush_.style() == Qt::NoBrush) return attribute("fill", "none");
  if (brush_.style() == Qt::SolidPattern) return colour("fill", brush_.color());
  if (const QGradient* gradient = brush_.gradient()) {
    const auto stops = gradient->stops();
    if (gradient->type() != QGradient::LinearGradient || gradient->coordinateMode() != QGradient::LogicalMode)
      return colour("fill", stops[stops.size() / 2].second);
    const auto* line = static_cast<const QLinearGradient*>(gradient);
    QByteArray content = attribute("x1", svgNumber(line->start().x() + shift().x())) +
                         attribute("y1", svgNumber(line->start().y() + shift().y())) +
                         attribute("x2", svgNumber(line->finalStop().x() + shift().x())) +
                         attribute("y2", svgNumber(line->finalStop().y() + shift().y())) + '>';
    for (const auto& [at, color] : stops)
      content +=
          "<stop" + attribute("offset", svgNumber(at)) + colour("stop", color).replace(" stop=", " stop-color=") + "/>";
    const QByteArray id = define("gradient" + content, [&](const QByteArray& name) {
      return "<linearGradient gradientUnits=\"userSpaceOnUse\"" + attribute("id", name) + content + "</linearGradient>";
    });
    return attribute("fill", "url(#" + id + ')');
  }
  const QByteArray tile = patternTile(brush_.style(), brush_.color());
  const QByteArray id = define("pattern" + tile, [&](const QByteArray& name) {
    return "<pattern patternUnits=\"userSpaceOnUse\" width=\"8\" height=\"8\"" + attribute("id", name) + '>' + tile +
           "</pattern>";
  });
  return attribute("fill", "url(#" + id + ')');
}

QByteArray SvgEngine::stroke() const {
  if (pen_.style() == Qt::NoPen) return {};
  const double width = pen_.widthF() > 0 ? pen_.widthF() : 1;
  QByteArray text = colour("stroke", pen_.color()) + attribute("stroke-width", svgNumber(width));
  if (!onlyMoved() && pen_.isCosmetic()) text += attribute("vector-effect", "non-scaling-stroke");
  if (pen_.style() != Qt::SolidLine) {
    QByteArray dashes;
    for (const double dash : pen_.dashPattern()) dashes += (dashes.isEmpty() ? "" : ",") + svgNumber(dash * width);
    text += attribute("stroke-dasharray", dashes);
  }
  if (pen_.capStyle() == Qt::RoundCap) text += attribute("stroke-linecap", "round");
  if (pen_.joinStyle() != Qt::MiterJoin)
    text += attribute("stroke-linejoin", pen_.joinStyle() == Qt::RoundJoin ? "round" : "bevel");
  return text;
}

void SvgEngine::shape(const char* element, const QByteArray& geometry, bool filled) {
  openGroup();
  const QByteArray line = stroke();
  body += '<' + QByteArray(element) + geometry + (filled ? fill() : attribute("fill", "none")) + line + opacity();
  // A line without anti-aliasing covers the pixel at its coordinates, whose center is half a pixel farther.
  const QByteArray turned = transformAttribute();
  if (!turned.isEmpty())
    body += turned;
  else if (!line.isEmpty() && !antialiased_)
    body += attribute("transform", "translate(.5 .5)");
  else if (line.isEmpty() && !antialiased_)
    body += attribute("shape-rendering", "crispEdges");
  body += "/>\n";
}

void SvgEngine::drawPolygon(const QPointF* points, int count, PolygonDrawMode mode) {
  QByteArray list;
  for (int i = 0; i < count; ++i) {
    const QPointF at = points[i] + shift();
    list += (i ? " " : "") + svgNumber(at.x()) + ',' + svgNumber(at.y());
  }
  QByteArray geometry = attribute("points", list);
  if (mode == OddEvenMode) geometry += attribute("fill-rule", "evenodd");
  shape(mode == PolylineMode ? "polyline" : "polygon", geometry, mode != PolylineMode);
}

void SvgEngine::drawRects(const QRectF* rects, int count) {
  for (int i = 0; i < count; ++i) {
    const QRectF rect = rects[i].translated(shift()).normalized();
    shape("rect", attribute("x", svgNumber(rect.x())) + attribute("y", svgNumber(rect.y())) +
                      attribute("width", svgNumber(rect.width())) + attribute("height", svgNumber(rect.height())));
  }
}

void SvgEngine::drawLines(const QLineF* lines, int count) {
  QByteArray data;
  for (int i = 0; i < count; ++i) {
    const QLineF line = lines[i].translated(shift());
    data += 'M' + svgNumber(line.x1()) + ' ' + svgNumber(line.y1()) + 'L' + svgNumber(line.x2()) + ' ' +
            svgNumber(line.y2());
  }
  if (count > 0) shape("path", attribute("d", data), false);
}

void SvgEngine::drawEllipse(const QRectF& rect) {
  const QPointF centre = rect.center() + shift();
  shape("ellipse", attribute("cx", svgNumber(centre.x())) + attribute("cy", svgNumber(centre.y())) +
                       attribute("rx", svgNumber(rect.width() / 2)) + attribute("ry", svgNumber(rect.height() / 2)));
}

void SvgEngine::drawPoints(const QPointF* points, int count) {
  const QPen pen = pen_;
  const QBrush brush = brush_;
  pen_ = QPen(Qt::NoPen);
  brush_ = pen.brush();
  const double width = std::max(1.0, pen.widthF());
  for (int i = 0; i < count; ++i) {
    const QRectF dot(points[i].x() - std::floor(width / 2), points[i].y() - std::floor(width / 2), width, width);
    drawRects(&dot, 1);
  }
  pen_ = pen;
  brush_ = brush;
}

void SvgEngine::drawImage(const QRectF& rect, const QImage& image, const QRectF& source, Qt::ImageConversionFlags) {
  QImage part = image.copy(source.toAlignedRect());
  if (part.isNull() || rect.isEmpty()) return;
  const int times =
      std::min(static_cast<int>(std::ceil(4 * std::max(rect.width() / part.width(), rect.height() / part.height()))),
               kSmallImageUpscale / std::max(part.width(), part.height()));
  if (times > 1) part = part.scaled(part.size() * times, Qt::IgnoreAspectRatio, Qt::FastTransformation);
  const QByteArray png = pngOf(part);
  openGroup();
  const QRectF at = rect.translated(shift());
  body += "<image" + attribute("x", svgNumber(at.x())) + attribute("y", svgNumber(at.y())) +
          attribute("width", svgNumber(at.width())) + attribute("height", svgNumber(at.height())) +
          transformAttribute() + opacity() + attribute("preserveAspectRatio", "none") +
          attribute("image-rendering", "optimizeSpeed") + attribute("style", "image-rendering:pixelated") +
          " xlink:href=\"data:image/png;base64," + png.toBase64() + "\"/>\n";
}

void SvgEngine::drawTextItem(const QPointF& at, const QTextItem& item) {
  const QString text = item.text();
  if (text.trimmed().isEmpty()) return;
  openGroup();
  const QFont font = item.font();
  const QPointF place = at + shift();
  body += "<text" + attribute("x", svgNumber(place.x())) + attribute("y", svgNumber(place.y())) + transformAttribute() +
          attribute("font-family", escaped(font.family()) + ",DejaVu Sans,Helvetica,Arial,sans-serif") +
          attribute("font-size", svgNumber(fontPixels(font, dpi_)));
  if (font.weight() != QFont::Normal) body += attribute("font-weight", QByteArray::number(int{font.weight()}));
  if (font.italic()) body += attribute("font-style", "italic");
  // Fixes the width of the text, since the viewer's font may be wider than the measured one.
  if (item.width() > 0 && text.size() > 1)
    body += attribute("textLength", svgNumber(item.width())) + attribute("lengthAdjust", "spacingAndGlyphs");
  body += colour("fill", pen_.color()) + opacity() + " xml:space=\"preserve\">" + escaped(text) + "</text>\n";
}

// Opens a group for the present clip; elements under the same clip share a group.
void SvgEngine::openGroup() {
  QByteArray data;
  QPainterPath clip;
  const QRegion system = systemClip();
  if (!system.isEmpty()) clip.addRegion(system);
  if (clipping_ && clipped_) clip = system.isEmpty() ? clip_ : clip.intersected(clip_);
  const bool any = !system.isEmpty() || (clipping_ && clipped_);
  const bool all = any && clip.elementCount() <= 5 && clip.boundingRect().contains(QRectF(canvas_)) && !clip.isEmpty();
  if (any && !all) data = clip.isEmpty() ? QByteArray("M0 0") : pathData(clip);
  if (group_open_ && data == open_group_) return;
  closeGroup();
  if (data.isEmpty()) return;
  const QByteArray id = define("clip" + data, [&](const QByteArray& name) {
    return "<clipPath" + attribute("id", name) + "><path d=\"" + data + "\"/></clipPath>";
  });
  body += "<g" + attribute("clip-path", "url(#" + id + ')') + ">\n";
  open_group_ = data;
  group_open_ = true;
}

void SvgEngine::closeGroup() {
  if (group_open_) body += "</g>\n";
  group_open_ = false;
  open_group_.clear();
}

SvgDevice::SvgDevice(QSize size, const QString& title, const QString& description)
    : size_(size), title_(title), description_(description), engine_(std::make_unique<SvgEngine>(size)) {}

SvgDevice::~SvgDevice() = default;

QPaintEngine* SvgDevice::paintEngine() const {
  return engine_.get();
}

QByteArray SvgDevice::element(const QByteArray& prefix) const {
  const QByteArray width = svgNumber(size_.width()), height = svgNumber(size_.height());
  QByteArray text = "<svg xmlns=\"http://www.w3.org/2000/svg\" xmlns:xlink=\"http://www.w3.org/1999/xlink\"" +
                    attribute("width", width) + attribute("height", height) +
                    attribute("viewBox", "0 0 " + width + ' ' + height) + " role=\"img\">\n<title>" + escaped(title_) +
                    "</title>\n<desc>" + escaped(description_) + "</desc>\n<defs>\n" + engine_->definitions +
                    "</defs>\n" + engine_->body + "</svg>\n";
  return text.replace(kIdMark, prefix);
}

int SvgDevice::metric(PaintDeviceMetric metric) const {
  const QScreen* screen = QGuiApplication::primaryScreen();
  const int dpi = screen ? to_int(std::lround(screen->logicalDotsPerInch())) : 96;
  switch (metric) {
    case PdmWidth:
      return size_.width();
    case PdmHeight:
      return size_.height();
    case PdmWidthMM:
      return static_cast<int>(size_.width() * 25.4 / dpi);
    case PdmHeightMM:
      return static_cast<int>(size_.height() * 25.4 / dpi);
    case PdmDpiX:
    case PdmDpiY:
    case PdmPhysicalDpiX:
    case PdmPhysicalDpiY:
      return dpi;
    case PdmDevicePixelRatio:
      return 1;
    case PdmDevicePixelRatioScaled:
      return static_cast<int>(devicePixelRatioFScale());
    default:
      return QPaintDevice::metric(metric);
  }
}

}  // namespace moescope
