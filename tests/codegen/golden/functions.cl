__kernel __attribute__((reqd_work_group_size(128, 1, 1))) void step_0(__global const float* restrict in0, __global float* restrict out) {
  const int group_x = (int)get_group_id(0);
  const int local_x = (int)get_local_id(0);
  float t[1] __attribute__((aligned(4)));
  if (group_x * 16 + (local_x >> 3) < 25) {
    const float t_1 = in0[group_x * 128 + local_x];
    t[0] = (fmod(0.5f * tanh(0.5f * log1p(t_1 <= 0.0f ? 0.0f - t_1 : t_1)) + 0.5f, erf(t_1)) < 0.0f && 0.0f < erf(t_1)) || (0.0f < fmod(0.5f * tanh(0.5f * log1p(t_1 <= 0.0f ? 0.0f - t_1 : t_1)) + 0.5f, erf(t_1)) && erf(t_1) < 0.0f) ? fmod(0.5f * tanh(0.5f * log1p(t_1 <= 0.0f ? 0.0f - t_1 : t_1)) + 0.5f, erf(t_1)) + erf(t_1) : fmod(0.5f * tanh(0.5f * log1p(t_1 <= 0.0f ? 0.0f - t_1 : t_1)) + 0.5f, erf(t_1));
    const float t_2 = rint(t[0]);
    out[group_x * 128 + local_x] = t_2 <= 0.5f ? 0.5f : t_2;
  }
}
