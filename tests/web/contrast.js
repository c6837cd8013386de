// Texts whose contrast against what is under them is less than WCAG's AA asks for.
const parts = (colour) => colour.match(/[\d.]+/g).map(Number);
const luminance = ([r, g, b]) => [r, g, b]
  .map((part) => part / 255)
  .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4))
  .reduce((sum, part, place) => sum + part * [0.2126, 0.7152, 0.0722][place], 0);
const under = (element) => {
  for (let at = element; at; at = at.parentElement) {
    const found = parts(getComputedStyle(at).backgroundColor);
    if (found.length === 3 || found[3] > 0) return found;
  }
  return [255, 255, 255];
};
const weak = [];
for (const element of document.querySelectorAll("main *, header *")) {
  const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
  if (!own || !element.getClientRects().length || element.closest("svg")) continue;
  const [light, dark] = [parts(getComputedStyle(element).color), under(element)].map(luminance).sort((a, b) => b - a);
  const contrast = (light + 0.05) / (dark + 0.05);
  if (contrast < 4.5) weak.push(`${element.tagName} ${element.textContent.slice(0, 30)} ${contrast.toFixed(2)}`);
}
return weak;
