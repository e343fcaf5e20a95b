// Texts that cannot be told from what lies behind them: contrast by WCAG 2.2, level AA.
() => {
  const parse = (text) =>
    (/rgba?\(([^)]+)\)/.exec(text) ?? [0, "0,0,0,0"])[1].split(/[ ,/]+/).map(Number);
  const light = ([r, g, b]) => {
    const part = (c) => {
      const share = c / 255;
      return share <= 0.03928 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    };
    return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
  };
  const contrast = (one, other) => {
    const [a, b] = [light(one), light(other)].sort((x, y) => y - x);
    return (a + 0.05) / (b + 0.05);
  };
  // the color behind an element; none where that is a picture
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const style = getComputedStyle(at), color = parse(style.backgroundColor);
      if (style.backgroundImage !== "none") return null;
      if (color.length < 4 || color[3] > 0) return color;
    }
    return [255, 255, 255];
  };
  const low = new Set();
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
    if (!own || !element.checkVisibility() || element.closest("script, style, canvas")) continue;
    const style = getComputedStyle(element);
    const drawn = element.closest("svg");
    // texts of drawings that lie on the page, not on what is drawn
    if (drawn && !element.matches("text.tick, text.name")) continue;
    const ground = behind(drawn ? drawn.parentElement : element);
    if (!ground) continue;
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
    const ratio = contrast(parse(drawn ? style.fill : style.color), ground);
    if (ratio < (large ? 3 : 4.5)) {
      const text = element.textContent.trim().slice(0, 30);
      low.add(`${ratio.toFixed(2)} ${element.tagName}.${element.getAttribute("class")} ${text}`);
    }
  }
  return [...low];
}
