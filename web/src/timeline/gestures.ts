/** Wheel, pointers, touch and keys on the canvas, as what they ask for. */

export interface Wishes {
  zoom(factor: number, x: number): void;
  pan(pixels: number): void;
  /** Where the pointer is; null when it has left. */
  hover(x: number | null, y: number): void;
  click(x: number, y: number, shift: boolean): void;
  /** Returns whether the key means something here. */
  key(key: string): boolean;
  /** Whether nothing more can be zoomed out: then the wheel is the page's. */
  atEnd(): boolean;
}

/** Zoom a pixel of the wheel. */
const WHEEL = 0.0015;
const LINE = 16;
/** How far a pointer may move and still click. */
const STILL = 4;

export function follow(canvas: HTMLCanvasElement, wishes: Wishes): void {
  const pointers = new Map<number, { x: number; y: number }>();
  let moved = 0;
  const place = (event: { clientX: number; clientY: number }): { x: number; y: number } => {
    const box = canvas.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  };

  canvas.addEventListener(
    "wheel",
    (event) => {
      const scale = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? LINE : 1;
      const across = event.shiftKey ? event.deltaY || event.deltaX : event.deltaX;
      if (Math.abs(across) > Math.abs(event.deltaY) || event.shiftKey) {
        event.preventDefault();
        wishes.pan(across * scale);
      } else if (event.deltaY < 0 || !wishes.atEnd()) {
        event.preventDefault();
        wishes.zoom(Math.exp(event.deltaY * scale * WHEEL * (event.ctrlKey ? 6 : 1)), place(event).x);
      }
    },
    { passive: false },
  );
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button === 0) {
      canvas.setPointerCapture(event.pointerId);
      pointers.set(event.pointerId, place(event));
      moved = pointers.size > 1 ? STILL + 1 : 0;
    }
  });
  canvas.addEventListener("pointermove", (event) => {
    const now = place(event);
    const before = pointers.get(event.pointerId);
    if (before === undefined) {
      wishes.hover(now.x, now.y);
      return;
    }
    pointers.set(event.pointerId, now);
    moved += Math.abs(now.x - before.x) + Math.abs(now.y - before.y);
    const other = [...pointers].find(([id]) => id !== event.pointerId)?.[1];
    if (other === undefined) {
      if (moved > STILL) {
        wishes.pan(before.x - now.x);
      }
      return;
    }
    const [wide, wider] = [Math.abs(before.x - other.x), Math.abs(now.x - other.x)];
    if (wide > 0 && wider > 0) {
      wishes.zoom(wide / wider, (now.x + other.x) / 2);
    }
    wishes.pan((before.x - now.x) / 2);
  });
  const released = (event: PointerEvent): void => {
    if (pointers.delete(event.pointerId) && event.type === "pointerup" && moved <= STILL) {
      const { x, y } = place(event);
      canvas.focus({ preventScroll: true });
      wishes.click(x, y, event.shiftKey);
    }
  };
  canvas.addEventListener("pointerup", released);
  canvas.addEventListener("pointercancel", released);
  canvas.addEventListener("pointerleave", () => wishes.hover(null, 0));
  canvas.addEventListener("keydown", (event) => {
    if (!event.ctrlKey && !event.metaKey && !event.altKey && wishes.key(event.key)) {
      event.preventDefault();
    }
  });
}
